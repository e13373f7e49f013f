//! Heads: written when all is well, to be kept elsewhere; and a store held against an older one.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use semel_core::audit;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::limits;
use semel_core::record::{self, Effect};
use semel_core::run;
use semel_core::seal::digest;
use semel_core::time::Wall;
use semel_core::verify::head::{
    CardLine, EffectLine, FORMAT, FoundRun, LastEntry, Line, Reader, RunLine, StoreLine, Writer,
};
use semel_store::{Return, StoreError, Upkeep};

use super::Verified;
use super::chains::is_entry;
use crate::exit::Failed;

/// Writes the head of a store into a file: all of it, or nothing. Returns how many lines it has.
pub(super) async fn export(store: &dyn Upkeep, file: &Path) -> Result<u64, Failed> {
    let failed = |error: std::io::Error| Failed::new(format!("{}: {error}", file.display()));
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    // For its owner only, like the store: it names every key.
    let written = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    let to = BufWriter::new(written);
    let mut out = Out { writer: Writer::default(), to, count: 0 };
    let identity = store.identity().await?;
    let at = store.ground().now.wall;
    out.put(&Line::Store(StoreLine {
        format: FORMAT,
        store: identity.store,
        epoch: identity.epoch,
        commits: identity.commits,
        wall_high: identity.wall_high,
        at,
    }))?;
    put_effects(store, &mut out, at).await?;
    put_runs(store, &mut out, at).await?;
    put_cards(store, &mut out, at).await?;
    for Return { epoch, closed, .. } in store.returns().await? {
        out.put(&Line::Return { epoch, closed: closed.is_some() })?;
    }
    let Out { writer, mut to, count } = out;
    to.write_all(writer.end().as_bytes()).map_err(failed)?;
    let written = to.into_inner().map_err(|error| failed(error.into_error()))?;
    written.as_file().sync_all().map_err(failed)?;
    written.persist(file).map_err(|error| failed(error.error))?;
    Ok(count)
}

struct Out<W> {
    writer: Writer,
    to: W,
    count: u64,
}

impl<W: Write> Out<W> {
    fn put(&mut self, line: &Line) -> Result<(), Failed> {
        self.count += 1;
        let text = self.writer.line(line);
        self.to
            .write_all(text.as_bytes())
            .map_err(|error| Failed::new(format!("the head cannot be written: {error}")))
    }
}

async fn put_effects(
    store: &dyn Upkeep,
    out: &mut Out<impl Write>,
    at: Wall,
) -> Result<(), Failed> {
    let mut after = i64::MIN;
    loop {
        let page = store.audit(after, limits::PAGE_ROWS_MAX).await?;
        for effect in &page.effects {
            out.put(&Line::Effect(EffectLine::of(effect, effect_digest(effect), at)))?;
        }
        let Some(next) = page.next else { return Ok(()) };
        after = next;
    }
}

async fn put_runs(store: &dyn Upkeep, out: &mut Out<impl Write>, at: Wall) -> Result<(), Failed> {
    let mut after = i64::MIN;
    loop {
        let page = store.audit_runs(after, limits::PAGE_ROWS_MAX).await?;
        for run in &page.runs {
            let beside = page.beside.get(&run.number).cloned().unwrap_or_default();
            let record = digest(&run::encode(run));
            let found = FoundRun {
                run,
                record: &record,
                link: None,
                deliveries: beside.deliveries,
                values: beside.values.len() as u64,
            };
            let last = store.last_entry(run.number).await?;
            let last = last.map(|entry| LastEntry { seq: entry.seq, link: entry.link.to_string() });
            out.put(&Line::Run(RunLine::of(&found, last, at)))?;
        }
        let Some(next) = page.next else { return Ok(()) };
        after = next;
    }
}

/// Entries of audit chains are told by the newest of each.
async fn put_cards(store: &dyn Upkeep, out: &mut Out<impl Write>, at: Wall) -> Result<(), Failed> {
    let (mut after, mut told) = (None, None);
    loop {
        let page = store.audit_cards(after, limits::PAGE_ROWS_MAX).await?;
        for card in page.cards {
            if !is_entry(&card) {
                let name = (&*card.namespace, &*card.kind, &*card.name);
                let content = (card.version, card.due, &*card.record);
                out.put(&Line::Card(CardLine::of(name, content, at)))?;
                continue;
            }
            if told.as_ref() == Some(&card.namespace) {
                continue;
            }
            let (_, end) = audit::read(&card.record).map_err(Failed::new)?;
            told = Some(card.namespace.clone());
            out.put(&Line::Audit { namespace: card.namespace, end })?;
        }
        let Some(next) = page.next else { return Ok(()) };
        after = Some(next);
    }
}

fn effect_digest(effect: &Effect) -> String {
    digest(&record::encode(effect))
}

/// Holds a store against a head. A head that is damaged says nothing: it is refused.
pub(super) async fn compare(
    store: &dyn Upkeep,
    file: &Path,
    verified: &mut Verified,
) -> Result<(), Failed> {
    // All of it first: what a damaged head says would only mislead.
    let mut whole = Lines::open(file)?;
    while whole.next()?.is_some() {}
    let returns = store.returns().await?;
    let mut lines = Lines::open(file)?;
    while let Some(line) = lines.next()? {
        verified.compared += 1;
        if let Some((name, what)) = problem(store, &line, &returns).await? {
            verified.find("I22", None, format!("{name}: {what}"));
        }
    }
    Ok(())
}

/// The lines of a head, one after the other.
struct Lines<'a> {
    file: &'a Path,
    texts: std::io::Lines<BufReader<std::fs::File>>,
    reader: Reader,
}

impl Lines<'_> {
    fn open(file: &Path) -> Result<Lines<'_>, Failed> {
        let opened = std::fs::File::open(file);
        let opened = opened.map_err(|error| damaged(file, &error.to_string()))?;
        Ok(Lines { file, texts: BufReader::new(opened).lines(), reader: Reader::default() })
    }

    /// `None` once all of it was read, and was whole.
    fn next(&mut self) -> Result<Option<Line>, Failed> {
        let Some(text) = self.texts.next() else {
            let reader = std::mem::take(&mut self.reader);
            return reader.finish().map(|()| None).map_err(|what| damaged(self.file, &what));
        };
        let text = text.map_err(|error| damaged(self.file, &error.to_string()))?;
        self.reader.line(&text).map(Some).map_err(|what| damaged(self.file, &what))
    }
}

fn damaged(file: &Path, what: &str) -> Failed {
    Failed::new(format!("the head {} cannot be used: {what}", file.display()))
        .hint("use one as `semel verify --export` wrote it")
}

type Problem = Option<(String, String)>;

async fn problem(store: &dyn Upkeep, line: &Line, returns: &[Return]) -> Result<Problem, Failed> {
    let now = store.ground().now.wall;
    match line {
        Line::Store(noted) => store_problem(store, noted).await,
        Line::Effect(noted) => effect_problem(store, noted, now).await,
        Line::Run(noted) => run_problem(store, noted, now).await,
        Line::Card(noted) => {
            let CardLine { namespace, kind, name, .. } = noted;
            let named = |what| (format!("{kind} {name} in {namespace}"), what);
            let found = match store.card(namespace, kind, name).await {
                Err(StoreError::Corrupt(what)) => return Ok(Some(named(what))),
                // It is there; what it said cannot be told any more.
                Err(StoreError::KeyDropped(_)) => return Ok(None),
                found => found?,
            };
            let found = found.as_ref().map(|card| (card.version, card.record.as_str()));
            Ok(noted.problem(found, now).map(named))
        }
        Line::Audit { namespace, end } => {
            let named = |what: String| (format!("the audit chain of {namespace}"), what);
            let found = match store.card(namespace, audit::CARD, &audit::card_name(end.seq)).await {
                Err(StoreError::Corrupt(what)) => return Ok(Some(named(what))),
                // It is there; what it said cannot be told any more.
                Err(StoreError::KeyDropped(_)) => return Ok(None),
                found => found?,
            };
            let Some(card) = found else {
                return Ok(Some(named(format!("it ends before entry {}", end.seq))));
            };
            let is_same = audit::read(&card.record).is_ok_and(|(_, found)| found == *end);
            Ok((!is_same).then(|| named(format!("it is another one at entry {}", end.seq))))
        }
        Line::Return { epoch, closed } => {
            let found = returns.iter().find(|one| one.epoch == *epoch);
            let stands = found.is_some_and(|one| one.closed.is_some() || !closed);
            let what = "it is not there, or open again".to_owned();
            Ok((!stands).then(|| (format!("return {epoch}"), what)))
        }
        Line::End(_) => Ok(None),
    }
}

async fn store_problem(store: &dyn Upkeep, noted: &StoreLine) -> Result<Problem, Failed> {
    let found = store.identity().await?;
    if found.store != noted.store {
        let text = format!("the head is of store {}, this is {}", noted.store, found.store);
        return Err(Failed::new(text).hint("take a head of this store"));
    }
    let behind = [
        (found.epoch < noted.epoch, "its epoch"),
        (found.commits < noted.commits, "its count of commits"),
        (found.wall_high < noted.wall_high, "its latest time"),
    ];
    let what = behind.iter().find(|(is_behind, _)| *is_behind);
    Ok(what.map(|(_, what)| ("the store".to_owned(), format!("{what} went back"))))
}

async fn effect_problem(
    store: &dyn Upkeep,
    noted: &EffectLine,
    now: Wall,
) -> Result<Problem, Failed> {
    let EffectLine { namespace, action, key, generation, .. } = noted;
    let named = |what| (format!("effect {action}/{key} g{generation} in {namespace}"), what);
    let names = (Namespace::stored(namespace), Action::new(action), Key::parse(key));
    let (Ok(namespace), Ok(action), Ok(key)) = names else {
        return Ok(Some(named("its name is none of ours".to_owned())));
    };
    let address = Address { namespace, action, key };
    let found = match store.load_generation(&address, *generation).await {
        Err(StoreError::Corrupt(what)) => return Ok(Some(named(what))),
        // It is there; what it said cannot be told any more.
        Err(StoreError::KeyDropped(_)) => return Ok(None),
        found => found?,
    };
    let record = found.as_ref().map(effect_digest).unwrap_or_default();
    Ok(noted.problem(found.as_ref().map(|effect| (effect, &*record)), now).map(named))
}

async fn run_problem(store: &dyn Upkeep, noted: &RunLine, now: Wall) -> Result<Problem, Failed> {
    let named = |what| (format!("run {} in {}", noted.id, noted.namespace), what);
    let found = match store.run(&noted.namespace, &noted.id).await {
        Err(StoreError::Corrupt(what)) => return Ok(Some(named(what))),
        // It is there; what it said cannot be told any more.
        Err(StoreError::KeyDropped(_)) => return Ok(None),
        found => found?,
    };
    let Some(run) = found else { return Ok(noted.problem(None, now).map(named)) };
    let entry = match &noted.last {
        Some(last) => store.journal(run.number, last.seq, 1).await?.into_iter().next(),
        None => None,
    };
    let is_asked = |seq: u64| noted.last.as_ref().is_some_and(|last| last.seq == seq);
    let link = entry.filter(|entry| is_asked(entry.seq)).map(|entry| entry.link.to_string());
    let beside = store.audit_runs(run.number - 1, 1).await?.beside;
    let beside = beside.get(&run.number).cloned().unwrap_or_default();
    let record = digest(&run::encode(&run));
    let found = FoundRun {
        run: &run,
        record: &record,
        link: link.as_deref(),
        deliveries: beside.deliveries,
        values: beside.values.len() as u64,
    };
    Ok(noted.problem(Some(&found), now).map(named))
}
