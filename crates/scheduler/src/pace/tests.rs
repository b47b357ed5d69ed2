use super::*;

const START: Moment = Moment(1_000_000_000_000);

fn after(seconds: u64) -> Moment {
    START.after(Duration::from_secs(seconds))
}

fn key(name: &str) -> Key {
    Key::namespaced("ns", name)
}

/// For how many seconds an object is left alone after writes of which this came.
#[track_caller]
fn rests(outcomes: &[Outcome], expected: &[u64]) {
    let mut rest = Rest::default();
    let found = outcomes.iter().map(|outcome| {
        rest = rest.after(*outcome, START);
        rest.left(START).unwrap_or_default().as_secs()
    });
    assert_eq!(found.collect::<Vec<_>>(), expected, "{outcomes:?}");
}

#[test]
fn what_is_not_kept_is_written_less_and_less_often_until_something_is_kept() {
    use Outcome::{Failed, Kept, Refused, Vain};
    rests(&[Kept; 3], &[1, 1, 1]);
    rests(&[Vain; 11], &[1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    rests(&[Vain, Vain, Vain, Kept, Vain, Vain], &[1, 2, 4, 1, 1, 2]);
    // Nobody knows more of the server than before.
    rests(&[Vain, Vain, Failed, Vain, Refused, Vain], &[1, 2, 1, 4, 60, 8]);
    rests(&[], &[]);
    assert_eq!(Rest::default().left(Moment(0)), None);
}

#[test]
fn an_answer_says_what_came_of_a_write() {
    let check = |wrote, is_kept: bool, expected| {
        assert_eq!(Outcome::of(wrote, || is_kept), expected, "{wrote:?} {is_kept}");
    };
    check(Wrote::All, true, Outcome::Kept);
    check(Wrote::All, false, Outcome::Vain);
    check(Wrote::Nothing, false, Outcome::Failed);
    check(Wrote::Refused, false, Outcome::Refused);
}

/// When an object is due again after a write of which this came: without news meanwhile, and with some.
#[track_caller]
fn check(outcome: Outcome, alone: Option<u64>, with_news: u64) {
    let due = |news: usize| {
        let (own, mut pace) = (key("a"), WritePace::default());
        pace.begin(&own, (), START);
        (0..news).for_each(|_| pace.ask(&own, START));
        assert_eq!(pace.next_due(), None, "it is under way");
        let flight = pace.answered(&own).unwrap();
        pace.settle(&own, &flight, outcome, START);
        pace.next_due()
    };
    assert_eq!((due(0), due(1)), (alone.map(after), Some(after(with_news))), "{outcome:?}");
}

#[test]
fn what_could_not_be_written_is_due_again_and_what_was_is_where_there_is_news() {
    check(Outcome::Kept, None, 1);
    check(Outcome::Vain, None, 1);
    check(Outcome::Failed, Some(5), 1);
    check(Outcome::Refused, Some(60), 60);
}

#[test]
fn an_object_that_was_written_is_due_when_it_may_be_written_again_and_once() {
    let (own, mut pace) = (key("a"), WritePace::default());
    pace.ask(&own, START);
    assert!(pace.admits(&own, START));
    assert_eq!((pace.next(START), pace.next(START)), (Some(own.clone()), None));
    pace.begin(&own, (), START);
    assert!(!pace.admits(&own, START), "it is under way");
    let flight = pace.answered(&own).unwrap();
    pace.settle(&own, &flight, Outcome::Kept, START);
    assert!(!pace.admits(&own, START), "it was just written");
    pace.ask(&own, START);
    pace.ask(&own, after(9));
    assert_eq!((pace.next(START), pace.next_due()), (None, Some(after(1))));
    assert!(pace.admits(&own, after(1)));
    assert_eq!((pace.next(after(1)), pace.next(after(1))), (Some(own.clone()), None));
    pace.ask(&own, after(1));
    pace.forget(&own);
    assert_eq!(pace.next_due(), None);
}

#[test]
fn no_more_are_under_way_than_may_be() {
    let mut pace = WritePace::default();
    for number in 0..WRITES_MAX {
        pace.begin(&key(&number.to_string()), (), START);
    }
    pace.ask(&key("late"), START);
    assert_eq!((pace.next(START), pace.next_due()), (None, None), "only an answer helps");
    assert!(pace.answered(&key("0")).is_some() && pace.answered(&key("0")).is_none());
    assert_eq!(pace.next(START), Some(key("late")));
}
