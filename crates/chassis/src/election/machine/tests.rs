//! The conversation, line by line, on a clock that stands.

use super::*;

/// The wall clock when the monotonic one is zero, in seconds.
const WALL: i64 = 1_000_000;

fn config() -> Config {
    Config { seed: 1, ..Config::new("kube-system", "kube-scheduler", "a") }
}

fn time(seconds: i64) -> Option<MicroTime> {
    Some(MicroTime::from(Timestamp::from_second(WALL + seconds).unwrap()))
}

fn held(holder: &str, renewed: i64, transitions: i32) -> Record {
    Record {
        holder: holder.to_owned(),
        duration_seconds: 15,
        acquired: time(0),
        renewed: time(renewed),
        transitions,
    }
}

fn found(holder: &str, renewed: i64, transitions: i32, version: u64) -> Event {
    Event::Found { record: held(holder, renewed, transitions), version }
}

fn stored(version: u64) -> Event {
    Event::Stored { version }
}

/// A record as `holder duration acquired/renewed transitions`.
fn show(record: &Record) -> String {
    let seconds = |time: Option<MicroTime>| {
        time.map_or("none".to_owned(), |t| (Timestamp::from(t).as_second() - WALL).to_string())
    };
    format!(
        "{:?} {}s {}/{} #{}",
        record.holder,
        record.duration_seconds,
        seconds(record.acquired),
        seconds(record.renewed),
        record.transitions
    )
}

fn show_effect(now: Duration, effect: &Effect) -> String {
    match effect {
        Effect::Read => "read".to_owned(),
        Effect::Create(record) => format!("create {}", show(record)),
        Effect::Update { record, version } => format!("update@{version} {}", show(record)),
        Effect::WakeAt(due) if due.subsec_nanos() == 0 => format!("wake {}", due.as_secs()),
        Effect::WakeAt(due) => {
            let wait = due.checked_sub(now).unwrap();
            assert!((2000..4400).contains(&wait.as_millis()), "{wait:?}");
            "wake with jitter".to_owned()
        }
        Effect::Observed(holder) => format!("observed {holder:?}"),
        Effect::Lead { epoch, until } => format!("lead {epoch} until {}", until.as_secs()),
        Effect::Renewed { until } => format!("renewed until {}", until.as_secs()),
        Effect::SlowPath => "slow path".to_owned(),
        Effect::Lose(loss) => format!("lose {loss:?}"),
        Effect::End => "end".to_owned(),
    }
}

/// Plays events at their seconds and compares what each step asks for.
fn check(config: &Config, lines: &[(u64, Event, &str)]) {
    let mut machine = Machine::new(config).unwrap();
    for (second, event, want) in lines {
        let monotonic = Duration::from_secs(*second);
        let wall = Timestamp::from_second(WALL + i64::try_from(*second).unwrap()).unwrap();
        let effects = machine.step(Now { monotonic, wall }, event.clone());
        let got: Vec<String> = effects.iter().map(|e| show_effect(monotonic, e)).collect();
        assert_eq!(got.join(", "), *want, "at {second} s, {event:?}");
    }
}

/// The lines that make a leader at second 0, by creating the Lease as version 1.
fn leading(then: &[(u64, Event, &'static str)]) -> Vec<(u64, Event, &'static str)> {
    let mut lines = vec![
        (0, Event::Tick, "read"),
        (0, Event::Missing, r#"create "a" 15s 0/0 #0"#),
        (0, stored(1), r#"observed "a", lead 1 until 10, wake 2"#),
    ];
    lines.extend_from_slice(then);
    lines
}

#[test]
fn a_lease_that_is_missing_is_created_and_renewed_without_reading() {
    check(
        &config(),
        &leading(&[
            (1, Event::Tick, "wake 2"),
            (2, Event::Tick, r#"update@1 "a" 15s 0/2 #0, wake 12"#),
            // Valid from when it was sent, next tried from when it was answered.
            (3, stored(2), "renewed until 12, wake 5"),
            (5, Event::Tick, r#"update@2 "a" 15s 0/5 #0, wake 15"#),
            (5, stored(9), "renewed until 15, wake 7"),
        ]),
    );
}

#[test]
fn a_lease_is_taken_when_we_have_seen_no_change_for_its_duration() {
    check(
        &config(),
        &[
            (0, Event::Tick, "read"),
            // Its times are an hour old, which says nothing.
            (0, found("b", -3600, 3, 5), r#"observed "b", wake with jitter"#),
            (5, Event::Tick, "read"),
            (5, found("b", -3598, 3, 6), "wake with jitter"),
            (19, Event::Tick, "read"),
            (19, found("b", -3598, 3, 6), "wake with jitter"),
            (24, Event::Tick, "read"),
            (24, found("b", -3598, 3, 7), r#"update@7 "a" 15s 24/24 #4"#),
            (25, stored(8), r#"observed "a", lead 8 until 34, wake 27"#),
        ],
    );
    // Until the read was sent, not until it was answered; and the end belongs to nobody.
    let answered_late = [
        (0, Event::Tick, "read"),
        (0, found("b", 0, 0, 5), r#"observed "b", wake with jitter"#),
        (14, Event::Tick, "read"),
        (16, found("b", 0, 0, 5), "wake with jitter"),
        (30, Event::Tick, "read"),
        (30, found("b", 0, 0, 5), r#"update@5 "a" 15s 30/30 #1"#),
    ];
    check(&config(), &answered_late);
    let at_the_end = [
        (0, Event::Tick, "read"),
        (0, found("b", 0, 0, 5), r#"observed "b", wake with jitter"#),
        (15, Event::Tick, "read"),
        (15, found("b", 0, 0, 5), r#"update@5 "a" 15s 15/15 #1"#),
    ];
    check(&config(), &at_the_end);
}

#[test]
fn a_lease_that_is_free_or_says_nonsense_is_taken_at_once() {
    for (record, want) in [
        (held("", 0, 7), r#"update@5 "a" 15s 0/0 #8"#),
        (Record::default(), r#"update@5 "a" 15s 0/0 #1"#),
        (held("", 0, i32::MAX), r#"update@5 "a" 15s 0/0 #2147483647"#),
        (held("", 0, -4), r#"update@5 "a" 15s 0/0 #1"#),
    ] {
        let found = Event::Found { record, version: 5 };
        check(&config(), &[(0, Event::Tick, "read"), (0, found, want)]);
    }
    let timeless = Record { duration_seconds: -1, ..held("b", 0, 0) };
    let found = Event::Found { record: timeless, version: 5 };
    let want = r#"observed "b", update@5 "a" 15s 0/0 #1"#;
    check(&config(), &[(0, Event::Tick, "read"), (0, found, want)]);
}

#[test]
fn who_finds_its_own_name_goes_on_with_the_term() {
    // The answer to the write that took it was lost.
    check(
        &config(),
        &[
            (0, Event::Tick, "read"),
            (0, found("", 0, 7, 5), r#"update@5 "a" 15s 0/0 #8"#),
            (5, Event::Failed, "wake with jitter"),
            (10, Event::Tick, "read"),
            (10, found("a", 0, 8, 6), r#"observed "a", update@6 "a" 15s 0/10 #8"#),
            (10, stored(7), "lead 7 until 20, wake 12"),
        ],
    );
}

#[test]
fn a_candidate_that_is_too_slow_does_not_lead() {
    check(
        &config(),
        &[
            (0, Event::Tick, "read"),
            (0, Event::Missing, r#"create "a" 15s 0/0 #0"#),
            (0, Event::Conflicted, "wake with jitter"),
            (5, Event::Tick, "read"),
            (5, found("b", 0, 0, 1), r#"observed "b", wake with jitter"#),
            (20, Event::Tick, "read"),
            (20, found("b", 0, 0, 1), r#"update@1 "a" 15s 20/20 #1"#),
            (20, Event::Conflicted, "wake with jitter"),
            (25, Event::Tick, "read"),
            (26, Event::Failed, "wake with jitter"),
        ],
    );
    // An answer after the deadline is worth nothing, and the next try finds our own name.
    check(
        &config(),
        &[
            (0, Event::Tick, "read"),
            (0, Event::Missing, r#"create "a" 15s 0/0 #0"#),
            (10, stored(1), r#"observed "a", read"#),
            (10, found("a", 0, 0, 1), r#"update@1 "a" 15s 0/10 #0"#),
            (10, stored(2), "lead 2 until 20, wake 12"),
        ],
    );
}

#[test]
fn a_renewal_that_fails_is_tried_with_what_is_read() {
    for failure in [Event::Conflicted, Event::Failed] {
        check(
            &config(),
            &leading(&[
                (2, Event::Tick, r#"update@1 "a" 15s 0/2 #0, wake 12"#),
                (3, failure.clone(), "read, wake 12"),
                (4, found("a", 0, 0, 3), r#"slow path, update@3 "a" 15s 0/4 #0, wake 12"#),
                (5, failure.clone(), "wake 7"),
                (7, Event::Tick, r#"update@3 "a" 15s 0/7 #0, wake 12"#),
                (8, stored(4), "renewed until 17, wake 10"),
            ]),
        );
    }
}

#[test]
fn a_leader_that_cannot_renew_gives_up_after_the_deadline_of_the_round() {
    check(
        &config(),
        &leading(&[
            (2, Event::Tick, r#"update@1 "a" 15s 0/2 #0, wake 12"#),
            (7, Event::Failed, "read, wake 12"),
            (11, Event::Tick, "wake 12"),
            // With a request still under way.
            (12, Event::Tick, "lose Deadline"),
            (13, Event::Failed, ""),
            (99, Event::Tick, ""),
            // The work has ended: what is still ours is given back.
            (99, Event::Stop, "read"),
            (99, found("a", 0, 0, 2), r#"update@2 "" 1s 99/99 #0"#),
            (99, stored(3), r#"observed "", end"#),
        ]),
    );
}

#[test]
fn a_leader_that_reads_another_name_has_lost_and_touches_nothing() {
    for (holder, seen) in [("b", r#"observed "b", lose Taken"#), ("", r#"observed "", lose Taken"#)]
    {
        check(
            &config(),
            &leading(&[
                (2, Event::Tick, r#"update@1 "a" 15s 0/2 #0, wake 12"#),
                (2, Event::Conflicted, "read, wake 12"),
                (2, found(holder, 1, 1, 3), seen),
                (5, Event::Tick, ""),
                (5, Event::Stop, "end"),
            ]),
        );
    }
}

#[test]
fn after_a_jump_of_the_clock_a_leader_has_lost_and_a_lease_is_read_anew() {
    check(&config(), &leading(&[(3600, Event::Tick, "lose Deadline")]));
    // A renewal that was answered after a pause keeps the term, but is not valid by itself.
    check(
        &config(),
        &leading(&[
            (2, Event::Tick, r#"update@1 "a" 15s 0/2 #0, wake 12"#),
            (30, stored(2), "renewed until 12, wake 32"),
            (50, Event::Tick, "lose Deadline"),
        ]),
    );
    check(
        &config(),
        &leading(&[
            (2, Event::Tick, r#"update@1 "a" 15s 0/2 #0, wake 12"#),
            (3, Event::Failed, "read, wake 12"),
            (11, Event::Failed, "wake 12"),
            (12, Event::Tick, "lose Deadline"),
        ]),
    );
}

#[test]
fn a_clean_end_gives_the_lease_back_if_it_is_ours() {
    let release = r#"update@2 "" 1s 2/2 #4"#;
    let ours = found("a", 0, 4, 2);
    check(
        &config(),
        &leading(&[
            (1, Event::Stop, "lose Stopped, read"),
            (2, ours.clone(), release),
            (2, stored(3), r#"observed "", end"#),
        ]),
    );
    // A renewal under way is answered first.
    for answer in [stored(2), Event::Conflicted, Event::Failed] {
        check(
            &config(),
            &leading(&[
                (2, Event::Tick, r#"update@1 "a" 15s 0/2 #0, wake 12"#),
                (2, Event::Stop, "lose Stopped"),
                (2, answer, "read"),
                (2, ours.clone(), release),
                (2, Event::Conflicted, "end"),
            ]),
        );
    }
    for (answer, want) in [
        (found("b", 0, 1, 2), r#"observed "b", end"#),
        (Event::Missing, "end"),
        (Event::Failed, "end"),
    ] {
        check(&config(), &leading(&[(1, Event::Stop, "lose Stopped, read"), (2, answer, want)]));
    }
    let keeps = Config { is_released_on_stop: false, ..config() };
    check(&keeps, &leading(&[(1, Event::Stop, "lose Stopped, end"), (9, Event::Tick, "")]));
}

#[test]
fn a_candidate_ends_at_once_unless_it_may_hold_the_lease() {
    check(&config(), &[(0, Event::Stop, "end"), (1, Event::Tick, "")]);
    check(&config(), &[(0, Event::Tick, "read"), (0, Event::Stop, "end"), (1, stored(1), "")]);
    let create = r#"create "a" 15s 0/0 #0"#;
    for answer in [stored(1), Event::Failed] {
        let observed = if answer == stored(1) { r#"observed "a", read"# } else { "read" };
        let then = if answer == stored(1) { "" } else { r#"observed "a", "# };
        check(
            &config(),
            &[
                (0, Event::Tick, "read"),
                (0, Event::Missing, create),
                (0, Event::Stop, ""),
                (1, answer, observed),
                (1, found("a", 0, 0, 1), &format!(r#"{then}update@1 "" 1s 1/1 #0"#)),
                (1, stored(2), r#"observed "", end"#),
            ],
        );
    }
}

#[test]
fn a_lease_that_was_deleted_is_created_anew_by_its_leader() {
    check(
        &config(),
        &leading(&[
            (2, Event::Tick, r#"update@1 "a" 15s 0/2 #0, wake 12"#),
            (2, Event::Missing, "read, wake 12"),
            (2, Event::Missing, r#"create "a" 15s 2/2 #0, wake 12"#),
            (2, stored(7), "renewed until 12, wake 4"),
        ]),
    );
}

#[test]
fn a_configuration_that_cannot_work_is_refused() {
    let seconds = Duration::from_secs_f64;
    let check = |lease: f64, renew: f64, retry: f64, want: Result<(), &str>| {
        let config = Config {
            lease_duration: seconds(lease),
            renew_deadline: seconds(renew),
            retry_period: seconds(retry),
            ..config()
        };
        let got = Machine::new(&config).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(got, want.map_err(str::to_owned), "{lease} {renew} {retry}");
    };
    check(15.0, 10.0, 2.0, Ok(()));
    check(10.0, 10.0, 2.0, Err("leaseDuration must be greater than renewDeadline"));
    let deadline = "renewDeadline must be greater than retryPeriod*JitterFactor";
    check(15.0, 2.4, 2.0, Err(deadline));
    check(15.0, 2.5, 2.0, Ok(()));
    check(15.0, 10.0, 0.0, Err("retryPeriod must be greater than zero"));
    check(15.0, 0.0, 2.0, Err("renewDeadline must be greater than zero"));
    let range = "leaseDuration must be from 1 s to 2147483647 s, not ";
    check(0.9, 0.5, 0.1, Err(&format!("{range}900ms")));
    check(3e9, 1.0, 0.1, Err(&format!("{range}3000000000s")));
    let nameless = Config { identity: String::new(), ..config() };
    assert_eq!(Machine::new(&nameless).map(|_| ()), Err(ConfigError::NoIdentity));
    let nowhere = Config { namespace: String::new(), ..config() };
    assert_eq!(Machine::new(&nowhere).map(|_| ()), Err(ConfigError::NoName));
}

#[test]
fn a_leadership_ends_no_later_than_the_seconds_that_are_written() {
    let config = Config {
        lease_duration: Duration::from_millis(3900),
        renew_deadline: Duration::from_millis(3800),
        retry_period: Duration::from_secs(1),
        ..config()
    };
    check(
        &config,
        &[
            (0, Event::Tick, "read"),
            (0, Event::Missing, r#"create "a" 3s 0/0 #0"#),
            (0, stored(1), r#"observed "a", lead 1 until 3, wake 1"#),
        ],
    );
}
