//! What a pod is told to do by its annotations, since nothing in it really runs.
//!
//! | annotation | meaning | default |
//! |---|---|---|
//! | `hollow.gantry.dev/start-seconds` | from being bound to the first container | 0.2 to 0.8, by seed |
//! | `hollow.gantry.dev/init-seconds` | how long each init container runs | 0 |
//! | `hollow.gantry.dev/init-exit-code` | how each init container ends | 0 |
//! | `hollow.gantry.dev/ready-seconds` | from the start of a container until it is ready | 0 |
//! | `hollow.gantry.dev/run-seconds` | how long each container runs before it ends | for ever; pods of a Job: see [`Setup::job_run`](crate::Setup::job_run) |
//! | `hollow.gantry.dev/exit-code` | how each container ends | 0 |
//! | `hollow.gantry.dev/stop-seconds` | how long containers take to end when the pod is deleted; beyond the grace period they are killed | 0 |
//! | `hollow.gantry.dev/cpu-usage` | CPU that the pod uses, as a quantity | a share of its requests, by seed |
//! | `hollow.gantry.dev/memory-usage` | memory that the pod uses, as a quantity | a share of its requests, by seed |
//!
//! Seconds may have a fraction. The six that speak of a container may also be given for one
//! of them, as in `hollow.gantry.dev/run-seconds.main`, which then counts for that one. A
//! value that cannot be read keeps the containers from being created, with a message that
//! names the annotation, as a bad configuration does on a real node.

use std::collections::BTreeMap;

use object::quantity::Quantity;

/// What the keys of all annotations here start with.
pub const ANNOTATION_PREFIX: &str = "hollow.gantry.dev/";

/// The longest time that may be asked for: ten years.
const SECONDS_MAX: u64 = 10 * 366 * 86_400;

/// What the annotations of a pod say, for it as a whole and for single containers.
#[derive(Debug, Default)]
pub(crate) struct Behaviour<'a> {
    values: BTreeMap<&'a str, &'a str>,
}

impl<'a> Behaviour<'a> {
    pub(crate) fn of(annotations: &'a BTreeMap<String, String>) -> Self {
        let ours = annotations
            .range(ANNOTATION_PREFIX.to_owned()..)
            .map_while(|(key, value)| Some((key.strip_prefix(ANNOTATION_PREFIX)?, value.as_str())));
        Self { values: ours.collect() }
    }

    /// A time for one container, else for all of them, in milliseconds.
    pub(crate) fn millis(&self, name: &str, container: &str) -> Result<Option<u64>, String> {
        self.find(name, container).map(|(key, value)| seconds(&key, value)).transpose()
    }

    /// An exit code for one container, else for all of them.
    pub(crate) fn code(&self, name: &str, container: &str) -> Result<i32, String> {
        let Some((key, value)) = self.find(name, container) else { return Ok(0) };
        let code = value.parse::<u8>().map_err(|_| {
            format!(
                "annotation {ANNOTATION_PREFIX}{key}: {value:?} is no exit code; write 0 to 255"
            )
        })?;
        Ok(i32::from(code))
    }

    /// An amount for the pod in units of `10^scale`.
    pub(crate) fn amount(&self, name: &str, scale: i32) -> Result<Option<u64>, String> {
        let Some((key, value)) = self.find(name, "") else { return Ok(None) };
        let parsed = value.parse::<Quantity>().ok();
        let amount = parsed.and_then(|quantity| quantity.checked_scaled_value(scale));
        let amount = amount.and_then(|amount| u64::try_from(amount).ok());
        amount.map(Some).ok_or_else(|| {
            format!(
                "annotation {ANNOTATION_PREFIX}{key}: {value:?} is no amount; write a quantity \
                 such as 500m or 2Gi"
            )
        })
    }

    fn find(&self, name: &str, container: &str) -> Option<(String, &'a str)> {
        if !container.is_empty() && !self.values.is_empty() {
            let own = format!("{name}.{container}");
            if let Some(value) = self.values.get(own.as_str()) {
                return Some((own, value));
            }
        }
        self.values.get(name).map(|value| (name.to_owned(), *value))
    }
}

fn seconds(key: &str, value: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "annotation {ANNOTATION_PREFIX}{key}: {value:?} is no number of seconds; write one \
             such as 30 or 0.5, at most {SECONDS_MAX}"
        )
    };
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().ok().filter(|&n| n <= SECONDS_MAX).ok_or_else(wrong)?;
    let thousandths = format!("{fraction:0<3}");
    let millis: u64 = thousandths[..3].parse().map_err(|_| wrong())?;
    Ok(whole * 1000 + millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_a_fraction_and_nothing_else() {
        let check = |text: &str, want: Option<u64>| {
            let annotations =
                BTreeMap::from([(format!("{ANNOTATION_PREFIX}run-seconds"), text.to_owned())]);
            let got = Behaviour::of(&annotations).millis("run-seconds", "main");
            match (got, want) {
                (Ok(got), want) => assert_eq!(got, want, "{text}"),
                (Err(error), None) => assert_eq!(
                    error,
                    format!(
                        "annotation hollow.gantry.dev/run-seconds: {text:?} is no number of \
                         seconds; write one such as 30 or 0.5, at most 316224000"
                    )
                ),
                (Err(error), Some(_)) => panic!("{text}: {error}"),
            }
        };
        check("30", Some(30_000));
        check("0.5", Some(500));
        check("1.2345", Some(1234));
        check("0", Some(0));
        for bad in ["", "-1", "1s", ".5", "1.", "1e3", "99999999999999999999", "٣", "1.٣"] {
            check(bad, None);
        }
    }

    #[test]
    fn what_is_said_of_one_container_counts_for_it() {
        let annotations: BTreeMap<String, String> = [
            ("a.example/x", "1"),
            ("hollow.gantry.dev/exit-code", "3"),
            ("hollow.gantry.dev/exit-code.proxy", "4"),
            ("hollow.gantry.dev/cpu-usage", "1500m"),
            ("z.example/x", "1"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let behaviour = Behaviour::of(&annotations);
        assert_eq!(behaviour.code("exit-code", "main"), Ok(3));
        assert_eq!(behaviour.code("exit-code", "proxy"), Ok(4));
        assert_eq!(behaviour.code("init-exit-code", "proxy"), Ok(0));
        assert_eq!(behaviour.amount("cpu-usage", -3), Ok(Some(1500)));
        assert_eq!(behaviour.amount("memory-usage", 0), Ok(None));
    }
}
