//! The spec as a page that people review.

use super::{Answer, EffectSpec, Spec, StepSpec, WorkflowSpec, list};

/// The page. Lines are long where a table has long cells; nothing else depends on a width.
pub fn markdown(spec: &Spec) -> String {
    let mut page = Vec::new();
    let of = spec.source.as_deref().map(|source| format!(" of {}", plain(source)));
    page.push(format!("# Spec{}", of.unwrap_or_default()));
    page.push(
        "Made by `semel spec` from the code; not to be edited. `semel spec --check` fails when \
         it no longer says what the code does."
            .to_owned(),
    );
    page.push(summary(spec));
    if !spec.workflows.is_empty() {
        page.push("## Workflows".to_owned());
        page.extend(spec.workflows.iter().map(workflow));
    }
    if !spec.effects.is_empty() {
        page.push("## Effects".to_owned());
        page.extend(spec.effects.iter().map(effect));
    }
    for (title, steps) in [("## Model calls", &spec.models), ("## Plain steps", &spec.functions)] {
        if !steps.is_empty() {
            page.push(title.to_owned());
            page.push(step_table(steps));
        }
    }
    let mut text = page.join("\n\n");
    text.push('\n');
    text
}

/// What needs a look, before everything else.
fn summary(spec: &Spec) -> String {
    let mut rows =
        vec!["| effect | contract | open questions |".to_owned(), "|---|---|---|".into()];
    for one in &spec.effects {
        let open: Vec<String> = one
            .checklist
            .iter()
            .filter(|check| check.answer != Answer::Yes)
            .map(|check| format!("{}: {}", mark(check.answer), check.why))
            .collect();
        let open = if open.is_empty() { "none".to_owned() } else { open.join("<br>") };
        rows.push(format!("| `{}` | {} | {} |", cell(&one.action), one.contract, cell(&open)));
    }
    if spec.effects.is_empty() {
        return "It declares no effect.".to_owned();
    }
    rows.join("\n")
}

fn effect(one: &EffectSpec) -> String {
    let mut rows = vec![
        format!("### `{}`", plain(&one.action)),
        String::new(),
        "| field | |".to_owned(),
        "|---|---|".to_owned(),
    ];
    let place = one.file.as_deref().map(|file| format!(" in `{file}`")).unwrap_or_default();
    let fields = [
        ("Action protected", format!("{}{place}", one.action_protected)),
        ("Business intent", one.business_intent.clone()),
        ("Key fields", one.key_fields.clone()),
        ("Storage location", one.storage_location.clone()),
        ("Replay window", one.replay_window.clone()),
        ("Result record", one.result_record.clone()),
        ("Resume rule", format!("after a crash between call and record, {}", one.resume_rule)),
        ("Contract", one.contract.clone()),
        ("Promise", one.promise.clone()),
    ];
    for (name, value) in fields {
        rows.push(format!("| {name} | {} |", cell(&value)));
    }
    rows.extend(one.more.iter().map(|line| format!("| Also | {} |", cell(line))));
    rows.extend([String::new(), "| before it ships | | why |".into(), "|---|---|---|".into()]);
    for check in &one.checklist {
        let answer = mark(check.answer);
        rows.push(format!("| {} | {answer} | {} |", check.question, cell(&check.why)));
    }
    rows.join("\n")
}

fn workflow(one: &WorkflowSpec) -> String {
    let mut rows = vec![format!("### {}", plain(&one.name)), String::new()];
    if let Some(about) = &one.about {
        rows.extend([plain(about), String::new()]);
    }
    rows.extend([
        "| field | |".to_owned(),
        "|---|---|".to_owned(),
        format!("| Start key | {} |", cell(&one.start_key)),
        format!("| Concurrency | {} |", cell(&one.concurrency)),
    ]);
    if let Some(redelivery) = &one.redelivery {
        rows.push(format!("| Redelivered for | {redelivery} |"));
    }
    let used = [
        ("Effects", &one.effects),
        ("Model calls", &one.models),
        ("Plain steps", &one.functions),
        ("Children", &one.children),
    ];
    for (name, names) in used {
        if !names.is_empty() {
            rows.push(format!("| {name} | {} |", cell(&list(names))));
        }
    }
    rows.join("\n")
}

fn step_table(steps: &[StepSpec]) -> String {
    let mut rows = vec!["| step | what | retries | kept |".to_owned(), "|---|---|---|---|".into()];
    for one in steps {
        let kept = one.cached.unwrap_or("recorded once; it may run again before that");
        let about = cell(one.about.as_deref().unwrap_or_default());
        rows.push(format!("| `{}` | {about} | {} | {kept} |", cell(&one.name), one.retries));
    }
    rows.join("\n")
}

fn mark(answer: Answer) -> &'static str {
    match answer {
        Answer::Yes => "yes",
        Answer::Attention => "attention",
        Answer::No => "**no**",
    }
}

/// Text from the code, safe in a cell: a bar would end it, a line break the table.
fn cell(text: &str) -> String {
    plain(text).replace('|', "\\|")
}

fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
