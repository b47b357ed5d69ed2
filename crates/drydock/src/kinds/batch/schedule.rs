//! Schedules as cron writes them: five fields, or a name such as `@daily`.
//!
//! Only the form is checked here; when a schedule is due is the controller's business.

use object::time::Duration;

const FIELDS: [Field; 5] = [
    Field { min: 0, max: 59, names: &[] },
    Field { min: 0, max: 23, names: &[] },
    Field { min: 1, max: 31, names: &[] },
    Field {
        min: 1,
        max: 12,
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    },
    Field { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

const NAMED: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

struct Field {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

/// Why `schedule` is none.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let schedule = without_zone(schedule)?;
    if schedule.starts_with('@') {
        return named(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly {} fields, found {}: [{}]",
            FIELDS.len(),
            fields.len(),
            fields.join(" ")
        ));
    }
    for (text, field) in fields.iter().zip(&FIELDS) {
        // An empty part says nothing, as between two commas.
        for part in text.split(',').filter(|part| !part.is_empty()) {
            range(part, field)?;
        }
    }
    Ok(())
}

fn without_zone(schedule: &str) -> Result<&str, String> {
    if !schedule.starts_with("TZ=") && !schedule.starts_with("CRON_TZ=") {
        return Ok(schedule);
    }
    match schedule.split_once(' ') {
        Some((_, rest)) => Ok(rest.trim()),
        None => Err("panic parsing schedule".to_owned()),
    }
}

fn named(schedule: &str) -> Result<(), String> {
    if NAMED.contains(&schedule) {
        return Ok(());
    }
    if let Some(text) = schedule.strip_prefix("@every ") {
        return text.parse::<Duration>().map(|_| ()).map_err(|_| {
            format!("failed to parse duration {schedule}: time: invalid duration {text:?}")
        });
    }
    Err(format!("unrecognized descriptor: {schedule}"))
}

fn range(part: &str, field: &Field) -> Result<(), String> {
    let (span, steps) = match part.split('/').collect::<Vec<_>>()[..] {
        [span] => (span, None),
        [span, steps] => (span, Some(steps)),
        _ => return Err(format!("too many slashes: {part}")),
    };
    let ends: Vec<&str> = span.split('-').collect();
    let (start, mut end) = match ends[..] {
        ["*" | "?", ..] => (field.min, field.max),
        [one] => {
            let number = value(one, field)?;
            (number, number)
        }
        [low, high] => (value(low, field)?, value(high, field)?),
        _ => return Err(format!("too many hyphens: {part}")),
    };
    let step = match steps {
        Some(steps) => number(steps)?,
        None => 1,
    };
    if steps.is_some() && ends.len() == 1 {
        end = field.max;
    }
    let Field { min, max, .. } = field;
    if start < *min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {part}"));
    }
    if end > *max {
        return Err(format!("end of range ({end}) above maximum ({max}): {part}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {part}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {part}"));
    }
    Ok(())
}

fn value(text: &str, field: &Field) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    match field.names.iter().position(|name| *name == lower) {
        Some(index) => Ok(index as u64 + field.min),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    match text.parse::<i64>() {
        Ok(number) => u64::try_from(number)
            .map_err(|_| format!("negative number ({number}) not allowed: {text}")),
        Err(_) => Err(format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_accepted_or_refused_with_a_reason() {
        let good = |schedule: &str| assert_eq!(check(schedule), Ok(()), "{schedule}");
        good("* * * * *");
        good("*/5 0-6 1,15 jan-mar MON");
        good("@hourly");
        good("@every 1h30m");
        let bad = |schedule: &str, why: &str| {
            assert_eq!(check(schedule), Err(why.to_owned()), "{schedule}");
        };
        bad("* * *", "expected exactly 5 fields, found 3: [* * *]");
        bad("60 * * * *", "end of range (60) above maximum (59): 60");
        bad("* * 0 * *", "beginning of range (0) below minimum (1): 0");
        bad("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1");
        bad("*/0 * * * *", "step of range should be a positive number: */0");
        bad("1/2/3 * * * *", "too many slashes: 1/2/3");
        bad("1-2-3 * * * *", "too many hyphens: 1-2-3");
        bad("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax");
        bad("@often", "unrecognized descriptor: @often");
    }
}
