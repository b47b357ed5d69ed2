//! Who uses what his quota only borrows, and who is guaranteed what he uses.
//!
//! What is lent is taken back by pods of any priority. Were those that it is taken from to push these out
//! again by their priority, or to take the room that is made for them, both would go and come for ever.

use crate::ledger::{Charged, Ledger, PodRow};
use crate::needs::Amounts;
use crate::quota::{Claim, Part, Preemptible, QuotaRef};

/// A pod that may have to go for those who are guaranteed what it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Borrower {
    quota: QuotaRef,
    amounts: Amounts,
}

impl Ledger {
    /// Pods make room for others of their quota from now on, and what is only lent is taken back.
    pub(crate) fn take_back_lent(&mut self) {
        self.quotas.takes_back = true;
    }

    /// A pod as somebody who may use what his quota borrows; none where nobody takes anything back of it.
    pub(crate) fn borrower_of(&self, row: &PodRow) -> Option<Borrower> {
        self.borrower(row.charged(), self.charged_for(row)?)
    }

    /// The same for those who are charged like this and ask for so much in all.
    pub(crate) fn borrower(&self, charged: Option<Charged>, amounts: &Amounts) -> Option<Borrower> {
        let charged = charged.filter(|own| own.preemptible == Preemptible::Yes)?;
        let quota = self.quotas.quota(charged.belonging).filter(|_| self.quotas.takes_back)?;
        Some(Borrower { quota: quota.clone(), amounts: amounts.clone() })
    }

    /// Whether a pod that has no node yet would use something that its quota borrows, while another is guaranteed
    /// by its own what it uses or asks for of that: the other one could take it back.
    pub(crate) fn owes(&self, borrower: &Borrower, other: &PodRow) -> bool {
        let theirs = other.charged().and_then(|own| self.quotas.quota(own.belonging));
        let Some((theirs, amounts)) = theirs.zip(self.charged_for(other)) else { return false };
        if *theirs == borrower.quota || theirs.tree != borrower.quota.tree || !other.may_preempt {
            return false;
        }
        let Some(view) = self.quotas.forest().last_view(&theirs.tree) else { return false };
        let own = Part { quota: &borrower.quota.name, amounts: &borrower.amounts };
        let theirs = Part { quota: &theirs.name, amounts };
        let claim = if other.is_placed() { Claim::Used(theirs) } else { Claim::Asked(theirs) };
        view.would_be_borrowed(own, claim)
    }
}
