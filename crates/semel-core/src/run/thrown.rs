//! What becomes of a run whose code ended with an error.

use crate::code::Code;

/// Where the error comes from that left the code of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thrown {
    /// The author declares it a failure of the run: by its type, or for the whole workflow.
    Declared,
    /// It answered a command of the run with this code, and the workflow let it through.
    Answered(Code),
    /// Nothing declares it: a slip in the code, until its author says otherwise.
    Undeclared,
}

/// How a run goes on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It fails, and what it did is undone.
    Fail,
    /// It pauses, and nothing is undone: corrected code continues it.
    Pause,
}

/// Only what the author chose fails a run. An answer is chosen where a declaration made it final:
/// a refusal, a step out of retries under `exhausted="fail"`, a person's no, a timeout, a child.
pub fn judge(thrown: Thrown) -> Verdict {
    match thrown {
        Thrown::Declared => Verdict::Fail,
        Thrown::Undeclared => Verdict::Pause,
        Thrown::Answered(code) => match code {
            Code::EffectFailed
            | Code::StepFailed
            | Code::RetriesExhausted
            | Code::ChildFailed
            | Code::TimedOut
            | Code::ApprovalDenied
            | Code::ApprovalReturned
            | Code::ApprovalExpired
            | Code::Undone => Verdict::Fail,
            _ => Verdict::Pause,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn req_o8_only_what_the_author_declared_fails_a_run() {
        assert_eq!(judge(Thrown::Declared), Verdict::Fail);
        assert_eq!(judge(Thrown::Undeclared), Verdict::Pause);
        let failing: Vec<&str> = Code::ALL
            .iter()
            .filter(|code| judge(Thrown::Answered(**code)) == Verdict::Fail)
            .map(|code| code.as_str())
            .collect();
        let chosen = [
            "retries_exhausted",
            "effect_failed",
            "step_failed",
            "timed_out",
            "approval_denied",
            "approval_returned",
            "approval_expired",
            "undone",
            "child_failed",
        ];
        assert_eq!(failing, chosen);
    }
}
