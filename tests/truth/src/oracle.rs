//! The oracle: the real scheduler's own code, asked what it would do.
//!
//! One process answers any number of questions, in the order in which they are asked. What may be
//! asked, and what the answer holds, is said at the top of `tests/kubernetes/oracle/main.go`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::Binaries;

/// A running oracle. It ends when this is dropped, or when this process ends however it does:
/// a closed standard input is the end of its work.
#[derive(Debug)]
pub struct Oracle {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts the oracle, and builds it first where it is missing or has been edited.
    ///
    /// # Errors
    /// Where it can neither be found nor built, or does not start.
    pub fn start(binaries: &Binaries<'_>) -> Result<Self> {
        let program = binaries.oracle()?;
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let questions = child.stdin.take();
        let answers = child.stdout.take().context("the output of the oracle is a pipe")?;
        Ok(Self { child, questions, answers: BufReader::new(answers) })
    }

    /// The answer to one request.
    ///
    /// # Errors
    /// Where the oracle has ended, or says that it could not do what the request asks for.
    pub fn ask(&mut self, request: &Value) -> Result<Value> {
        let questions = self.questions.as_mut().context("the oracle was told to end")?;
        let mut line = serde_json::to_vec(request).context("a request is JSON")?;
        line.push(b'\n');
        let mut answer = String::new();
        // A broken pipe and an answer that does not come both mean that the oracle has ended, so
        // one sentence with its exit code serves for both.
        let sent = questions.write_all(&line).and_then(|()| questions.flush());
        let received = sent.and_then(|()| self.answers.read_line(&mut answer));
        if !matches!(received, Ok(length) if length > 0) {
            let status = self.child.wait().context("cannot wait for the oracle")?;
            bail!("the oracle ended ({status}); what it said is on the standard error");
        }
        let answer: Value = serde_json::from_str(&answer).context("the answer is not JSON")?;
        let error = answer["error"].as_str().unwrap_or_default();
        ensure!(error.is_empty(), "the oracle cannot answer: {error}");
        Ok(answer)
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        drop(self.questions.take());
        // It ends by itself now; whether it could be waited for changes nothing.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Requests with what must be at which place of their answers, written by hand.
    const TRUTHS: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../kubernetes/oracle/truths.json"));

    fn start() -> Oracle {
        Oracle::start(&Binaries::locate(&|line| eprintln!("{line}"))).unwrap()
    }

    #[test]
    fn the_oracle_says_what_is_known_to_be_true() {
        let mut oracle = start();
        let truths: Vec<Value> = serde_json::from_str(TRUTHS).unwrap();
        let mut differences = Vec::new();
        for truth in &truths {
            let rule = truth["rule"].as_str().unwrap();
            let answer = match oracle.ask(&truth["request"]) {
                Ok(answer) => answer,
                Err(error) => {
                    differences.push(format!("{rule}: {error:#}"));
                    continue;
                }
            };
            for (place, expected) in truth["expect"].as_object().unwrap() {
                let found = answer.pointer(place).unwrap_or(&Value::Null);
                if found != expected {
                    differences.push(format!("{rule}: {place} is {found}, not {expected}"));
                }
            }
        }
        assert!(differences.is_empty(), "{}", differences.join("\n"));
        assert!(truths.len() > 10, "{} truths", truths.len());
    }

    #[test]
    fn a_bad_request_is_an_error_and_the_next_one_is_answered() {
        let mut oracle = start();
        let mut check = |request: Value, expected: &str| {
            let error = oracle.ask(&request).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            let answer = oracle.ask(&json!({"id": 7})).unwrap();
            assert_eq!(answer["id"], 7);
        };
        let pod = |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
        check(json!("words"), "is not understood");
        check(json!({"steps": [{"guess": 1}]}), "unknown field \"guess\"");
        check(json!({"steps": [{"probe": {"pod": "p"}}]}), "there is no pod default/p");
        check(json!({"objects": [{"kind": "Pod"}]}), "no kind \"Pod\" of \"\"");
        check(json!({"objects": [pod(json!({"cpus": 1}))]}), "unknown field \"spec.cpus\"");
        check(json!({"config": {"kind": "Pod"}}), "config");
    }
}
