//! A service gets an address, and ports on the nodes, that no other service has.
//!
//! The pools are kube-apiserver's usual ones. What is taken is read from the services
//! themselves, which are written one at a time ([`Held`]): neither two that draw nor two
//! that ask for the same can get it.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::{MutexGuard, PoisonError};

use object::field::{Error, Path};
use serde_json::{Value, json};

use super::{Attributes, Plugin};
use crate::answer::Failure;
use crate::kinds::{Kind, service};
use crate::server::Server;
use crate::write::Part;

/// The addresses of services, `10.96.0.0/16`, without its first and its last.
const FIRST_ADDRESS: u32 = 0x0a60_0001;
const LAST_ADDRESS: u32 = 0x0a60_fffe;
/// The lowest addresses are left to those who ask for one by name.
const FIRST_DRAWN_ADDRESS: u32 = FIRST_ADDRESS + 256;
/// The address of the API server itself, and the service that alone may have it.
const SERVER_ADDRESS: u32 = FIRST_ADDRESS;
const SERVER_SERVICE: (Option<&str>, &str) = (Some("default"), "kubernetes");

const FIRST_PORT: u32 = 30_000;
const LAST_PORT: u32 = 32_767;
/// The lowest ports are left to those who ask for one by number.
const FIRST_DRAWN_PORT: u32 = FIRST_PORT + 86;

/// Held from where a service gets something from the pools until it is stored.
pub(crate) struct Held<'a>(
    #[expect(dead_code, reason = "it is held, not read")] MutexGuard<'a, ()>,
);

/// Holds the pools for one write, where the kind draws from them.
pub(crate) fn hold<'a>(server: &'a Server, kind: &Kind) -> Option<Held<'a>> {
    let draws = kind.strategy.admission().contains(&Plugin::ServiceAddresses);
    // The lock guards no data, so one that panicked with it in hand left nothing broken.
    draws.then(|| Held(server.pools.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Gives a service what it needs from the pools.
pub(super) fn mutate(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Failure> {
    if attributes.part != Part::Object {
        return Ok(());
    }
    if let Some(old) = attributes.old {
        service::keep_given(object, old);
    }
    service::agree_on_address(object, attributes.old);
    let errors = service::set_families(object, attributes.old);
    if !errors.is_empty() {
        return Err(invalid(attributes, &errors));
    }
    give_address(attributes, object)?;
    give_ports(attributes, object)
}

fn invalid(attributes: &Attributes<'_>, errors: &[Error]) -> Failure {
    Failure::invalid(&attributes.found.kind.group_kind(), attributes.name, errors)
}

fn give_address(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Failure> {
    if service::is_alias(object) || service::is_headless(object) {
        return Ok(());
    }
    let given = object["spec"]["clusterIPs"][0].as_str().map(str::to_owned);
    let had = attributes.old.and_then(|old| old["spec"]["clusterIPs"][0].as_str());
    if given.is_some() && given.as_deref() == had {
        return Ok(());
    }
    let taken = taken_addresses(attributes);
    if let Some(given) = given {
        return check_address(&given, &taken).map_err(|why| {
            let at = Path::new("spec").child("clusterIPs");
            let shown = object["spec"]["clusterIPs"].clone();
            let why = format!("failed to allocate IP {given}: {why}");
            invalid(attributes, &[Error::invalid(&at, shown, why)])
        });
    }
    let random = attributes.server.env().random();
    let address = draw(random, FIRST_DRAWN_ADDRESS..=LAST_ADDRESS, &taken)
        .ok_or_else(|| Failure::internal("failed to allocate a serviceIP: range is full"))?;
    let address = Ipv4Addr::from(address).to_string();
    object["spec"]["clusterIP"] = address.clone().into();
    object["spec"]["clusterIPs"] = json!([address]);
    Ok(())
}

fn check_address(given: &str, taken: &BTreeSet<u32>) -> Result<(), &'static str> {
    let Ok(address) = given.parse::<Ipv4Addr>() else {
        return Err("the provided network does not match the current range");
    };
    let address = u32::from(address);
    if !(FIRST_ADDRESS..=LAST_ADDRESS).contains(&address) {
        return Err("the provided network does not match the current range");
    }
    if taken.contains(&address) {
        return Err("provided IP is already allocated");
    }
    Ok(())
}

/// The addresses that services have. A service's address is among its selectable fields.
fn taken_addresses(attributes: &Attributes<'_>) -> BTreeSet<u32> {
    let (services, _) = attributes.found.kind.table.list("");
    let addresses = services.iter().filter_map(|stored| stored.fields.first());
    let addresses = addresses.filter_map(|text| text.parse::<Ipv4Addr>().ok()).map(u32::from);
    let is_server = (attributes.namespace, attributes.name) == SERVER_SERVICE;
    addresses.chain((!is_server).then_some(SERVER_ADDRESS)).collect()
}

/// The first free number from a random one on.
fn draw(random: u64, pool: RangeInclusive<u32>, taken: &BTreeSet<u32>) -> Option<u32> {
    let (first, last) = (*pool.start(), *pool.end());
    let size = u64::from(last - first) + 1;
    let start = u32::try_from(random % size).ok()?;
    let mut candidates = (first + start..=last).chain(first..first + start);
    candidates.find(|number| !taken.contains(number))
}

fn give_ports(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Failure> {
    if !service::uses_node_ports(object) {
        return Ok(());
    }
    let mut pool = Ports { attributes, taken: taken_ports(attributes), own: own_ports(attributes) };
    let wants = service::wants_node_ports(object);
    let count = object["spec"]["ports"].as_array().map_or(0, Vec::len);
    let mut by_port: Vec<(i64, i64)> = Vec::new();
    for index in 0..count {
        let port = &object["spec"]["ports"][index];
        let (own, given) = (int(&port["port"]), int(&port["nodePort"]));
        if given == 0 && !wants {
            continue;
        }
        let known = by_port.iter().find(|(port, _)| *port == own).map(|(_, node)| *node);
        let number = match known {
            // Two protocols on one port share the number on the nodes.
            Some(known) if given == 0 || given == known => known,
            Some(_) => pool.take(given, index)?,
            None => {
                let ports = object["spec"]["ports"].as_array();
                let requested = ports.into_iter().flatten().find_map(|other| {
                    (int(&other["port"]) == own)
                        .then(|| int(&other["nodePort"]))
                        .filter(|number| *number != 0)
                });
                let number = match requested {
                    Some(requested) => pool.take(requested, index)?,
                    None => pool.draw()?,
                };
                by_port.push((own, number));
                number
            }
        };
        object["spec"]["ports"][index]["nodePort"] = number.into();
    }
    if service::needs_health_check(object) && int(&object["spec"]["healthCheckNodePort"]) == 0 {
        object["spec"]["healthCheckNodePort"] = pool.draw()?.into();
    }
    Ok(())
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// The ports of the nodes, as one write sees them.
struct Ports<'a> {
    attributes: &'a Attributes<'a>,
    taken: BTreeSet<u32>,
    own: BTreeSet<u32>,
}

impl Ports<'_> {
    fn take(&mut self, wanted: i64, index: usize) -> Result<i64, Failure> {
        let at = Path::new("spec").child("ports").index(index).child("nodePort");
        let refused = |why: String| invalid(self.attributes, &[Error::invalid(&at, wanted, why)]);
        let number =
            u32::try_from(wanted).ok().filter(|port| (FIRST_PORT..=LAST_PORT).contains(port));
        let Some(number) = number else {
            return Err(refused(format!(
                "provided port is not in the valid range. The range of valid ports is {FIRST_PORT}-{LAST_PORT}"
            )));
        };
        if self.taken.contains(&number) && !self.own.contains(&number) {
            return Err(refused("provided port is already allocated".to_owned()));
        }
        self.taken.insert(number);
        Ok(wanted)
    }

    fn draw(&mut self) -> Result<i64, Failure> {
        let random = self.attributes.server.env().random();
        let number = draw(random, FIRST_DRAWN_PORT..=LAST_PORT, &self.taken)
            .ok_or_else(|| Failure::internal("failed to allocate a nodePort: range is full"))?;
        self.taken.insert(number);
        Ok(number.into())
    }
}

fn own_ports(attributes: &Attributes<'_>) -> BTreeSet<u32> {
    attributes.old.map(ports_of).unwrap_or_default()
}

fn ports_of(service: &Value) -> BTreeSet<u32> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let numbers = ports.map(|port| int(&port["nodePort"]));
    let numbers = numbers.chain([int(&service["spec"]["healthCheckNodePort"])]);
    numbers.filter_map(|number| u32::try_from(number).ok()).filter(|number| *number != 0).collect()
}

/// The ports that services have. A service's type is among its selectable fields.
fn taken_ports(attributes: &Attributes<'_>) -> BTreeSet<u32> {
    let (services, _) = attributes.found.kind.table.list("");
    let with_ports = services.iter().filter(|stored| {
        stored.fields.get(1).is_some_and(|kind| matches!(&**kind, "NodePort" | "LoadBalancer"))
    });
    let values = with_ports.filter_map(|stored| serde_json::from_slice(&stored.body).ok());
    values.flat_map(|service: Value| ports_of(&service)).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::env::ManualEnv;
    use crate::request::Identity;
    use crate::server::Config;
    use crate::write::{self, Writer};

    #[test]
    fn a_draw_is_free() {
        let mut taken = BTreeSet::from([11, 12]);
        let mut draw = |random| {
            let number = draw(random, 10..=14, &taken)?;
            taken.insert(number);
            Some(number)
        };
        assert_eq!(draw(1), Some(13));
        assert_eq!(draw(1), Some(14));
        assert_eq!(draw(1), Some(10));
        assert_eq!(draw(0), None);
    }

    #[test]
    fn a_full_pool_gives_nothing() {
        let taken = BTreeSet::from([1, 2]);
        assert_eq!(draw(7, 1..=2, &taken), None);
    }

    /// How many of several services with this spec are created when all try at once.
    fn created(server: &Server, round: usize, spec: &Value) -> usize {
        const WRITERS: usize = 4;
        let identity = Identity { user: "test".to_owned(), groups: Vec::new() };
        let writer = Writer { identity: &identity, dry_run: false };
        let found = server.registry().find("", "v1", "services").unwrap();
        let start = std::sync::Barrier::new(WRITERS);
        let create = |name: usize| {
            let service = json!({"metadata": {"name": format!("s{round}-{name}")}, "spec": spec});
            start.wait();
            write::create(server, &found, Some("default"), writer, &service).is_ok()
        };
        std::thread::scope(|scope| {
            let create = &create;
            let writers: Vec<_> =
                (0..WRITERS).map(|name| scope.spawn(move || create(name))).collect();
            writers.into_iter().filter_map(|writer| writer.join().ok()).filter(|done| *done).count()
        })
    }

    #[test]
    fn who_asks_for_the_same_at_once_does_not_get_it_twice() {
        let env = ManualEnv::new(Timestamp::UNIX_EPOCH, 1);
        let server = Server::new(Config::default(), Box::new(env));
        crate::bootstrap::bootstrap(&server);
        for round in 1..=50 {
            let address = json!({"clusterIP": format!("10.96.9.{round}"), "ports": [{"port": 80}]});
            assert_eq!(created(&server, round, &address), 1, "round {round}");
            let ports = json!([{"port": 80, "nodePort": 31_000 + round}]);
            let port = json!({"type": "NodePort", "ports": ports});
            assert_eq!(created(&server, 100 + round, &port), 1, "round {round}");
        }
    }
}
