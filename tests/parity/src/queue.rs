//! The second suite: a script of facts is played to the real scheduler's queue and to ours, and
//! every pod must be at the same place after every step.
//!
//! Ours wakes pods here as the real one does, also in vain. What it does otherwise is a list with
//! a reason for each: the hints that say `Vain` and `Missed`. As it wakes them when it is not
//! compared, it is held to less: a pod that the real queue would try, and that fits, is tried by
//! ours as well. Of pods that were refused for their volumes less is asked too: whoever is woken
//! there is woken here.

mod generate;
mod play;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use truth::Oracle;

pub use generate::Script;
use play::{Hints, Places, Player};

/// Pods refused for their volumes that the real queue wakes, and ours too.
pub const WOKEN_TOO: &str = "refused for volumes, woken there and here";
/// Pods refused for their volumes that only ours wakes.
const WOKEN_ONLY: &str = "refused for volumes, woken only here";

/// Where both sides differ.
#[derive(Debug)]
pub struct Difference {
    /// After which step; none for the start.
    pub step: Option<usize>,
    /// What the real queue says.
    pub truth: String,
    /// What ours says.
    pub ours: String,
}

/// What both sides were asked, and where they differ first.
pub struct Outcome {
    /// How often places were compared.
    pub compared: usize,
    /// The first difference.
    pub difference: Option<Difference>,
    /// How often plugins said what.
    pub hints: Hints,
}

/// Plays a script to both queues.
///
/// # Errors
/// When a script cannot be played.
pub fn compare(script: &Script, oracle: &mut Oracle) -> Result<Outcome> {
    let (Played { places: ours, mut hints, left_waiting }, truth) =
        (play(script)?, ask(script, oracle)?);
    let mut compared = 0;
    for (index, place) in ours.iter().enumerate().take(truth.len()) {
        compared += 1;
        let truth_before = index.checked_sub(1).map(|index| &truth[index]);
        let truth = &truth[index];
        // Whoever was refused for its volumes is woken where the real queue wakes it, and maybe
        // elsewhere.
        if script.is_coarse && index + 1 == ours.len() {
            let woken = truth_before.map_or(0, |before| truth.woken_since(before));
            *hints.entry(WOKEN_TOO.to_owned()).or_default() += woken;
            if let Some(vain) = place.woken_beside(truth) {
                *hints.entry(WOKEN_ONLY.to_owned()).or_default() += vain;
                continue;
            }
        }
        if *place != *truth {
            let (truth, ours) = (truth.to_string(), place.to_string());
            let difference = Some(Difference { step: index.checked_sub(1), truth, ours });
            return Ok(Outcome { compared, difference, hints });
        }
    }
    if let Some((step, ours)) = left_waiting {
        let truth = "it is tried".to_owned();
        let difference = Some(Difference { step: Some(step), truth, ours });
        return Ok(Outcome { compared, difference, hints });
    }
    if truth.len() < ours.len() {
        bail!("the real queue stopped after {} steps and did not differ before", truth.len());
    }
    Ok(Outcome { compared, difference: None, hints })
}

/// What our queue did.
struct Played {
    /// Where it had every pod, at the start and after every step.
    places: Vec<Places>,
    hints: Hints,
    /// The first pod that ours left waiting in vain, and after which step.
    left_waiting: Option<(usize, String)>,
}

fn play(script: &Script) -> Result<Played> {
    let mut left_waiting = None;
    let mut player = Player::start(&script.objects)?;
    let mut places = vec![player.places(String::new())];
    for (index, step) in script.steps.iter().enumerate() {
        let popped = player.step(step)?;
        places.push(player.places(popped));
        if left_waiting.is_none() {
            left_waiting = player.left_waiting().map(|what| (index, what));
        }
    }
    Ok(Played { places, hints: player.hints, left_waiting })
}

/// Where the real queue has them. It cannot go on after a step that makes no sense to it, such as
/// an answer for a pod that only ours popped: then the steps before are asked for.
fn ask(script: &Script, oracle: &mut Oracle) -> Result<Vec<Places>> {
    let mut count = script.steps.len();
    loop {
        let request =
            json!({"objects": script.objects, "queue": true, "steps": script.steps[..count]});
        match oracle.ask(&request) {
            Ok(answer) => {
                let mut places = vec![Places::from_oracle(&answer["start"], "")];
                for step in answer["steps"].as_array().into_iter().flatten() {
                    let popped = step["popped"].as_str().unwrap_or_default();
                    places.push(Places::from_oracle(&step["queue"], popped));
                }
                return Ok(places);
            }
            Err(error) if count == 0 => return Err(error),
            Err(_) => count -= 1,
        }
    }
}

/// Leaves out what is not needed for a script to differ.
pub fn shrink(script: &Script, oracle: &mut Oracle) -> Script {
    let mut differs =
        |script: &Script| compare(script, oracle).is_ok_and(|outcome| outcome.difference.is_some());
    let mut small = script.clone();
    loop {
        let before = small.steps.len() + small.objects.len();
        for index in (0..small.steps.len()).rev() {
            let mut less = small.clone();
            less.steps.remove(index);
            if differs(&less) {
                small = less;
            }
        }
        for index in (0..small.objects.len()).rev() {
            let mut less = small.clone();
            less.objects.remove(index);
            if differs(&less) {
                small = less;
            }
        }
        if small.steps.len() + small.objects.len() == before {
            return small;
        }
    }
}

/// A script as text, one step a line.
pub fn told(script: &Script) -> String {
    let lines = script.objects.iter().chain(&script.steps).map(Value::to_string);
    lines.collect::<Vec<_>>().join("\n")
}
