//! The answer in words.

use std::fmt;

use super::{
    Answer, AnsweredBy, ChangeTold, ConsideredTold, LackTold, NodesTold, Standing, State, Subject,
};

/// What to do where nothing is in the way.
const WHO_RUNS: &str = "If it goes on waiting, look whether a scheduler of its name runs.";

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.subject, self.state)?;
        if let Some(group) = &self.group {
            write!(f, "\n{group}")?;
        }
        if let Some(message) = &self.message {
            writeln!(f, "\n{message}")?;
        }
        if let Some(plan) = self.group.as_ref().and_then(|group| group.plan.as_ref()) {
            write!(f, "\n{plan}")?;
            if plan.refused.is_none() && self.answered_by == AnsweredBy::Objects {
                writeln!(f, "{WHO_RUNS}")?;
            }
        }
        for hint in &self.hints {
            writeln!(f, "\n{hint}")?;
        }
        if let Some(quota) = &self.quota {
            write!(f, "\n{quota}")?;
        }
        if let Some((_, nodes)) = self.quota.as_ref().zip(self.nodes.as_ref())
            && nodes.fitting > 0
        {
            let (fitting, all) = (nodes.fitting, counted(nodes.all));
            writeln!(f, "\n{fitting} of {all} could take it, were it not for the quota.")?;
        } else if let Some(nodes) = &self.nodes {
            writeln!(f)?;
            nodes.write(f, self.subject.noun())?;
            if nodes.fitting > 0 && self.answered_by == AnsweredBy::Objects {
                writeln!(f, "{WHO_RUNS}")?;
            }
        }
        if !self.extenders.is_empty() {
            let asked = self.extenders.join(", ");
            writeln!(f, "\nExtenders have a say too, which is not counted here: {asked}")?;
        }
        for unread in &self.unread {
            writeln!(f, "\nNot counted, because it cannot be read: {unread}")?;
        }
        f.write_str(match self.answered_by {
            AnsweredBy::Scheduler => "\nThis is what the scheduler that runs says.",
            AnsweredBy::Objects => {
                "\nThis was worked out from the objects of the cluster by the profiles of `gantry up`, or of \
                 --config; no scheduler was asked."
            }
        })
    }
}

impl Subject {
    fn noun(&self) -> &'static str {
        match self {
            Self::Pod { .. } => "pod",
            Self::Reservation { .. } => "reservation",
            Self::Gang { .. } => "gang",
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod { namespace, pod } => write!(f, "Pod {namespace}/{pod}"),
            Self::Reservation { reservation } => write!(f, "Reservation {reservation}"),
            Self::Gang { namespace, gang } => write!(f, "Gang {namespace}/{gang}"),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { phase } => write!(f, "has ended ({phase}) and needs no node."),
            Self::Bound { node } => write!(f, "has a node: {node}."),
            Self::Deleting => f.write_str("is being deleted: no node is looked for."),
            Self::Gated { gates } => write!(
                f,
                "is held back by {} {}: no node is looked for until nothing is left in \
                 spec.schedulingGates.",
                plural(gates.len(), "scheduling gate"),
                gates.join(", ")
            ),
            Self::OtherScheduler { scheduler, known } => write!(
                f,
                "waits for scheduler {scheduler:?}, and who answers decides for {}: run a scheduler \
                 of that name, or correct spec.schedulerName or the label \
                 scheduling.koordinator.sh/scheduler-name. Where one runs, ask it (--scheduler \
                 URL), or name its configuration (--config FILE).",
                known.join(", ")
            ),
            Self::NotReserving { scheduler, reserving } if reserving.is_empty() => write!(
                f,
                "waits for scheduler {scheduler:?}, and no profile of who answers gives reservations \
                 their nodes: enable plugin Reservation under filter in a profile of that name. Where \
                 another scheduler does, ask it (--scheduler URL), or name its configuration (--config \
                 FILE)."
            ),
            Self::NotReserving { scheduler, reserving } => write!(
                f,
                "waits for scheduler {scheduler:?}, and no profile of that name gives reservations \
                 their nodes, but that of {} does: name it in spec.template.spec.schedulerName, or \
                 enable plugin Reservation under filter in a profile of that name.",
                reserving.join(" or ")
            ),
            Self::Unstarted { standing } => {
                f.write_str("has not started.")?;
                standing.as_ref().map_or(Ok(()), |standing| write!(f, " {standing}"))
            }
            Self::Started => f.write_str("has started: each member that comes is by itself."),
            Self::NotGanging => f.write_str(
                "is looked after by nobody: no profile of who answers has pods start together. Enable \
                 plugin Coscheduling in one. Where another scheduler does, ask it (--scheduler URL), or \
                 name its configuration (--config FILE).",
            ),
            Self::Malformed { error } => {
                write!(f, "cannot be read, and no node is looked for: {error}.")
            }
            Self::Waiting { standing, nominated } => {
                f.write_str("waits for a node.")?;
                if let Some(standing) = standing {
                    write!(f, " {standing}")?;
                }
                match nominated {
                    Some(node) => write!(f, " Room is being made for it on {node}."),
                    None => Ok(()),
                }
            }
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active => f.write_str("It is in the line of those that are tried next."),
            Self::Backoff { seconds_left } => {
                write!(f, "It was refused lately and is tried again within {seconds_left} s.")
            }
            Self::ErrorBackoff { seconds_left } => {
                write!(f, "The last attempt failed; it is tried again in {seconds_left} s.")
            }
            Self::Waiting => f.write_str("It is tried again when something changes that may help."),
            Self::Gated => f.write_str("It may not be tried yet."),
            Self::InFlight => f.write_str("It is being decided about."),
            Self::Decided { node } => write!(f, "It was given {node}, which is being written."),
        }
    }
}

impl fmt::Display for NodesTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "pod")
    }
}

impl NodesTold {
    /// Says it of a pod, or of something else of this name.
    fn write(&self, f: &mut fmt::Formatter<'_>, noun: &str) -> fmt::Result {
        let Self { all, fitting, promised, everywhere, nearest, .. } = self;
        match (*all, *fitting) {
            (0, _) => return writeln!(f, "There are no nodes."),
            (all, 0) => writeln!(f, "None of {} can take it.", counted(all))?,
            (all, fitting) => writeln!(
                f,
                "{fitting} of {} can take it now: it waits for its turn, or for its back-off to \
                 end.",
                counted(all)
            )?,
        }
        if *promised > 0 {
            let room = "were room there not kept for pods of equal or higher priority";
            writeln!(f, "{} more could, {room}.", counted(*promised))?;
        }
        if *fitting > 0 {
            return Ok(());
        }
        for lack in everywhere {
            writeln!(f, "Whatever the node: {}", lack.text)?;
        }
        if !nearest.is_empty() {
            writeln!(f, "The nearest, and what each lacks:")?;
        }
        let width = nearest.iter().map(|one| one.node.len()).max().unwrap_or(0);
        for one in nearest {
            for (number, LackTold { text, .. }) in one.lacks.iter().enumerate() {
                let node = if number == 0 { one.node.as_str() } else { "" };
                writeln!(f, "  {node:width$}  {text}")?;
            }
        }
        self.write_considered(f)?;
        changes(f, &self.changes, noun)
    }

    fn write_considered(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reservations, reservations_left_out, takeovers, .. } = self;
        if !reservations.is_empty() {
            writeln!(f, "\nReservations for it, and what is in the way of each:")?;
            considered(f, reservations)?;
        }
        if *reservations_left_out > 0 {
            writeln!(f, "  and {reservations_left_out} more")?;
        }
        if !takeovers.is_empty() {
            writeln!(f, "\nPods that it could take over, and what is in the way of each:")?;
            considered(f, takeovers)?;
        }
        Ok(())
    }
}

fn considered(f: &mut fmt::Formatter<'_>, all: &[ConsideredTold]) -> fmt::Result {
    let place = |one: &ConsideredTold| match &one.node {
        Some(node) => format!("{} on {node}", one.name),
        None => one.name.clone(),
    };
    let width = all.iter().map(|one| place(one).len()).max().unwrap_or(0);
    for one in all {
        let mut place = place(one);
        if one.lacks.is_empty() {
            writeln!(f, "  {place:width$}  nothing, but for room that is kept for others")?;
        }
        for LackTold { text, .. } in &one.lacks {
            writeln!(f, "  {place:width$}  {text}")?;
            place.clear();
        }
    }
    Ok(())
}

fn changes(f: &mut fmt::Formatter<'_>, changes: &[ChangeTold], noun: &str) -> fmt::Result {
    if changes.is_empty() {
        return writeln!(f, "\nNo single change of the {noun} that was tried would admit it.");
    }
    writeln!(f, "\nEach of these changes of the {noun} would admit it by itself:")?;
    let width = changes.iter().map(|one| one.change.len()).max().unwrap_or(0);
    for one in changes {
        writeln!(f, "  {:width$}  to {}", one.change, counted(one.nodes))?;
    }
    Ok(())
}

fn counted(nodes: usize) -> String {
    format!("{nodes} {}", plural(nodes, "node"))
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { noun.to_owned() } else { format!("{noun}s") }
}
