//! The statement of one run: its journal with the chain followed, who advanced it, what it asked
//! for.

use super::statement::{ChildStatement, RunStatement, Take};
use super::{Read, ReadRun, repeat_statements};
use crate::derive;
use crate::journal::{Event, Value};
use crate::key::{Key, Namespace};
use crate::wire::rfc3339;
use crate::wire_run::{child_asked, entry_view};

pub(super) fn state(one: &ReadRun, read: &Read<'_>) -> RunStatement {
    let run = &one.run;
    let entries = one.entries.iter().map(|(seq, entry)| {
        let value = entry.event.value().and_then(|value| match value {
            Value::Json(json) => Some(json.clone()),
            // The journal has its digest; the value itself is beside it, and not in a proof.
            Value::Blob { .. } => None,
        });
        entry_view(*seq, entry, value)
    });
    RunStatement {
        id: run.id.clone(),
        workflow: run.workflow.clone(),
        key: run.key.clone(),
        id_derives: id_of(&run.namespace, &run.workflow, &run.key).as_ref() == Some(&run.id),
        state: run.state().as_str(),
        version: run.version,
        release: run.release.clone(),
        parent: run.parent.clone(),
        created_at: rfc3339(run.created),
        ended_at: run.ended.as_ref().map(|ended| rfc3339(ended.at)),
        chain: one.chain.clone(),
        takes: takes(one),
        children: children(one, read),
        repeats: repeat_statements(read.repeats.get(run.id.as_str())),
        entries: entries.collect(),
    }
}

/// The id that a run of this name must have.
pub(super) fn id_of(namespace: &str, workflow: &str, key: &str) -> Option<String> {
    let (namespace, key) = (Namespace::stored(namespace).ok()?, Key::parse(key).ok()?);
    Some(derive::run_id(&namespace, workflow, &key).to_string())
}

fn takes(one: &ReadRun) -> Vec<Take> {
    let mut takes = Vec::new();
    for (seq, entry) in &one.entries {
        if let Event::Taken { fence, worker, release, .. } = &entry.event {
            takes.push(Take {
                seq: *seq,
                at: rfc3339(entry.at.0),
                fence: *fence,
                worker: worker.clone(),
                release: release.clone(),
            });
        }
    }
    takes
}

fn children(one: &ReadRun, read: &Read<'_>) -> Vec<ChildStatement> {
    let mut children = Vec::new();
    for (_, entry) in &one.entries {
        let Event::Planned { id: command, what, .. } = &entry.event else { continue };
        let Some((workflow, key)) = child_asked(what) else { continue };
        let Some(id) = id_of(&one.run.namespace, workflow, key) else { continue };
        let found = read.runs.iter().find(|other| other.run.id == id);
        children.push(ChildStatement {
            command: command.clone(),
            state: found.map_or("missing", |child| child.run.state().as_str()),
            workflow: workflow.to_owned(),
            key: key.to_owned(),
            id,
        });
    }
    children
}
