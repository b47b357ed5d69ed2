//! The group of a gang in words.

use std::fmt;

use super::{GangTold, GroupPhase, GroupTold, PlanTold, RefusedTold};

impl fmt::Display for GroupTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.member_of {
            Some(gang) if self.gangs.len() > 1 => {
                writeln!(f, "It is a member of gang {gang}. These start at once:")?;
            }
            Some(gang) => writeln!(f, "It is a member of gang {gang}:")?,
            None if self.gangs.len() > 1 => writeln!(f, "These start at once:")?,
            None => writeln!(f, "Its members:")?,
        }
        let width = self.gangs.iter().map(|own| own.gang.len()).max().unwrap_or(0);
        for own in &self.gangs {
            writeln!(f, "  {:width$}  {own}", own.gang)?;
        }
        match self.phase {
            GroupPhase::Started if self.member_of.is_some() => {
                writeln!(f, "It has started: each member that comes is by itself.")?;
            }
            GroupPhase::Starting => {
                writeln!(f, "All members that are needed have a node, which is being written.")?;
            }
            _ => {}
        }
        if let Some(wait) = &self.waits_for {
            writeln!(f, "\nNo node is looked for yet: {wait}.")?;
        }
        for hint in &self.hints {
            writeln!(f, "  {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Display for GangTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { min, members, placed, waiting, gated, of_other_schedulers, needed, .. } = self;
        write!(f, "{members}")?;
        match min {
            Some(min) => write!(f, " of {min} there")?,
            None => write!(f, " there, and nothing says how many there must be")?,
        }
        write!(f, ", {placed} with a node, {waiting} waiting")?;
        if let Some(needed) = needed.filter(|own| *own > 0) {
            write!(f, ", {needed} needed at once")?;
        }
        if *gated > 0 {
            write!(f, ", {gated} held back by scheduling gates")?;
        }
        if *of_other_schedulers > 0 {
            write!(f, ", {of_other_schedulers} of another scheduler")?;
        }
        Ok(())
    }
}

impl fmt::Display for PlanTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { needed, fitting, refused } = self;
        let Some(refused) = refused else {
            return writeln!(
                f,
                "All {needed} members that are needed can have a node now: they wait for their turn, or \
                 for their back-off to end."
            );
        };
        let RefusedTold { namespace, pod, .. } = refused;
        let members = "members that are needed can have a node";
        writeln!(
            f,
            "{fitting} of {needed} {members}. The first that gets none is {namespace}/{pod}."
        )?;
        refused.fmt(f)
    }
}

impl fmt::Display for RefusedTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(quota) = &self.quota {
            match self.is_quota_for_all {
                true => writeln!(f, "\nOf what all that are needed ask for together:")?,
                false => writeln!(f, "\nWhile the others have theirs:")?,
            }
            return quota.fmt(f);
        }
        let Some(nodes) = &self.nodes else { return Ok(()) };
        writeln!(f, "\nWhile the others have theirs:")?;
        match nodes.fitting {
            0 => nodes.fmt(f),
            fitting => writeln!(
                f,
                "{fitting} of {} nodes could take it, but not before the others have theirs. Members get \
                 nodes by priority, then by size, the largest first, and then by name.",
                nodes.all
            ),
        }
    }
}
