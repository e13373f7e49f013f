//! The file of a backup: a first line, parts made of blocks behind their lengths, the manifest, and
//! a digest of all of it. It is written beside its place and moved there when it is whole, so a
//! file that has its name is a backup, and one that was cut later has no end.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use semel_core::seal::Seal;
use sha2::{Digest, Sha256};

use super::manifest::{Manifest, Part, name};
use crate::StoreError;

const FIRST: &str = "semel backup 1\n";

/// The longest block, and the longest manifest.
const BLOCK_MAX: usize = 1024 * 1024;
/// The longest line that is no block.
const LINE_MAX: u64 = 200;

/// Writes a backup. Dropped before its end it leaves nothing.
pub(crate) struct Writer {
    target: PathBuf,
    beside: Beside,
    to: BufWriter<File>,
    all: Sha256,
    parts: Vec<Part>,
    part: Sha256,
}

/// A file on its way to its place, removed unless it gets there. For its owner only.
pub(crate) struct Beside {
    path: PathBuf,
    is_done: bool,
}

impl Beside {
    /// Creates a file beside a place.
    pub(crate) fn create(place: &Path, suffix: &str) -> Result<(Beside, File), StoreError> {
        let mut path = place.as_os_str().to_owned();
        path.push(suffix);
        let path = PathBuf::from(path);
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&path).map_err(|error| failed(&path, &error))?;
        Ok((Beside { path, is_done: false }, file))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves it to its place, if that is still free.
    pub(crate) fn settle(mut self, place: &Path) -> Result<(), StoreError> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        renameat_with(CWD, &self.path, CWD, place, RenameFlags::NOREPLACE).map_err(|error| {
            match error {
                rustix::io::Errno::EXIST => StoreError::NotEmpty(place.display().to_string()),
                error => failed(place, &error.into()),
            }
        })?;
        self.is_done = true;
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or_else(|| Path::new("."));
        // The name, too, must outlive a power cut.
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| failed(folder, &error))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Writer {
    pub(crate) fn create(target: &Path) -> Result<Writer, StoreError> {
        if target.exists() {
            return Err(StoreError::NotEmpty(target.display().to_string()));
        }
        let (beside, file) = Beside::create(target, ".part")?;
        let to = BufWriter::with_capacity(BLOCK_MAX, file);
        let (all, part, parts) = (Sha256::new(), Sha256::new(), Vec::new());
        let mut writer = Writer { target: target.to_owned(), beside, to, all, parts, part };
        writer.put(FIRST.as_bytes())?;
        Ok(writer)
    }

    pub(crate) fn begin(&mut self, part: &str, columns: Vec<String>) -> Result<(), StoreError> {
        self.part = Sha256::new();
        let sha256 = String::new();
        self.parts.push(Part { name: part.to_owned(), bytes: 0, sha256, columns });
        self.put(format!("part {part}\n").as_bytes())
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        for block in bytes.chunks(BLOCK_MAX) {
            self.part.update(block);
            let length = u32::try_from(block.len()).expect("a block is short");
            self.put(&length.to_be_bytes())?;
            self.put(block)?;
        }
        let part = self.parts.last_mut().expect("a part was begun");
        part.bytes += bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn end_part(&mut self) -> Result<(), StoreError> {
        let part = self.parts.last_mut().expect("a part was begun");
        part.sha256 = hex(std::mem::take(&mut self.part));
        self.put(&0_u32.to_be_bytes())
    }

    /// Writes the end, and puts the file into its place. The parts are those that were written.
    pub(crate) fn finish(mut self, mut manifest: Manifest) -> Result<Manifest, StoreError> {
        manifest.parts = std::mem::take(&mut self.parts);
        let text = manifest.text();
        self.put(format!("manifest {}\n", text.len()).as_bytes())?;
        self.put(text.as_bytes())?;
        let end = format!("end {}\n", hex(self.all.clone()));
        self.put(end.as_bytes())?;
        let Writer { target, beside, to, .. } = self;
        let written = to.into_inner().map_err(|error| failed(&target, error.error()))?;
        written.sync_all().map_err(|error| failed(&target, &error))?;
        beside.settle(&target)?;
        Ok(manifest)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.all.update(bytes);
        self.to.write_all(bytes).map_err(|error| failed(&self.target, &error))
    }
}

/// What comes next in a backup.
pub(crate) enum Event {
    Part(String),
    Block(Vec<u8>),
    /// The end of a part, which was as its manifest will say.
    PartEnd,
    End(Manifest),
}

/// Reads a backup from its beginning, and believes nothing of it.
pub(crate) struct Reader {
    path: PathBuf,
    from: BufReader<File>,
    all: Sha256,
    part: Option<Sha256>,
    found: Vec<(String, u64, String)>,
}

impl Reader {
    pub(crate) fn open(path: &Path) -> Result<Reader, StoreError> {
        let file = File::open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => StoreError::Missing(path.display().to_string()),
            _ => failed(path, &error),
        })?;
        let from = BufReader::with_capacity(BLOCK_MAX, file);
        let (all, found) = (Sha256::new(), Vec::new());
        let mut reader = Reader { path: path.to_owned(), from, all, part: None, found };
        if reader.line().ok().as_deref() != Some(FIRST.trim_end()) {
            return Err(reader.wrong("it is no backup of Semel"));
        }
        Ok(reader)
    }

    /// After the end there is nothing to read.
    pub(crate) fn next(&mut self) -> Result<Event, StoreError> {
        if self.part.is_some() {
            return self.block();
        }
        let line = self.line()?;
        match line.split_once(' ') {
            Some(("part", part)) => {
                let part = name(part).ok_or_else(|| self.wrong("a part has no name"))?;
                self.part = Some(Sha256::new());
                self.found.push((part.clone(), 0, String::new()));
                Ok(Event::Part(part))
            }
            Some(("manifest", length)) => self.end(length),
            Some(_) | None => Err(self.wrong("it was changed")),
        }
    }

    fn block(&mut self) -> Result<Event, StoreError> {
        let mut length = [0; 4];
        self.fill(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > BLOCK_MAX {
            return Err(self.wrong("it was changed"));
        }
        let mut block = vec![0; length];
        self.fill(&mut block)?;
        let found = self.found.last_mut().expect("a part was begun");
        if length == 0 {
            found.2 = hex(self.part.take().unwrap_or_default());
            return Ok(Event::PartEnd);
        }
        found.1 += length as u64;
        self.part.as_mut().expect("in a part").update(&block);
        Ok(Event::Block(block))
    }

    fn end(&mut self, length: &str) -> Result<Event, StoreError> {
        let length = length.parse().ok().filter(|length| *length <= BLOCK_MAX);
        let mut text = vec![0; length.ok_or_else(|| self.wrong("it was changed"))?];
        self.fill(&mut text)?;
        let wanted = format!("end {}", hex(self.all.clone()));
        if self.line()? != wanted {
            return Err(self.wrong("it was changed: its digest is another"));
        }
        let mut more = [0; 1];
        if self.from.read(&mut more).map_err(|error| failed(&self.path, &error))? > 0 {
            return Err(self.wrong("it goes on behind its end"));
        }
        let text = String::from_utf8(text).ok();
        let manifest = text.and_then(|text| Manifest::parse(&text));
        let manifest = manifest.ok_or_else(|| self.wrong("its manifest makes no sense"))?;
        let said = manifest.parts.iter().map(|part| (&part.name, part.bytes, &part.sha256));
        let found = self.found.iter().map(|(name, bytes, sha256)| (name, *bytes, sha256));
        if !said.eq(found) {
            return Err(self.wrong("its parts are not those of its manifest"));
        }
        Ok(Event::End(manifest))
    }

    fn line(&mut self) -> Result<String, StoreError> {
        let mut line = Vec::new();
        let read = (&mut self.from).take(LINE_MAX).read_until(b'\n', &mut line);
        read.map_err(|error| failed(&self.path, &error))?;
        self.all.update(&line);
        match line.pop() {
            Some(b'\n') => String::from_utf8(line).map_err(|_| self.wrong("it was changed")),
            Some(_) | None => Err(self.wrong("it is cut, or was changed")),
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), StoreError> {
        self.from.read_exact(bytes).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.wrong("it is cut"),
            _ => failed(&self.path, &error),
        })?;
        self.all.update(bytes);
        Ok(())
    }

    fn wrong(&self, what: &str) -> StoreError {
        StoreError::BackupInvalid(format!("{}: {what}", self.path.display()))
    }
}

fn hex(hash: Sha256) -> String {
    Seal(hash.finalize().into()).to_string()
}

pub(crate) fn failed(path: &Path, error: &std::io::Error) -> StoreError {
    let text = format!("{}: {error}", path.display());
    match error.kind() {
        std::io::ErrorKind::StorageFull => StoreError::Full(text),
        std::io::ErrorKind::AlreadyExists => StoreError::NotEmpty(path.display().to_string()),
        _ => StoreError::Unavailable(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::Kind;
    use semel_core::time::Wall;

    fn written(folder: &Path) -> PathBuf {
        let target = folder.join("one.semel");
        let mut writer = Writer::create(&target).expect("a writer");
        for (name, size) in [("first", 3), ("empty", 0), ("second", 9)] {
            writer.begin(name, vec!["a".into()]).expect("begun");
            writer.add(&vec![7; size]).expect("added");
            writer.end_part().expect("ended");
        }
        let manifest = Manifest {
            kind: Kind::Sqlite,
            store: "s".into(),
            format: 1,
            epoch: 0,
            created: Wall(0),
            rows: vec![],
            parts: vec![],
            counters: vec![],
        };
        let manifest = writer.finish(manifest).expect("whole");
        assert_eq!(manifest.parts.len(), 3);
        target
    }

    fn read(path: &Path) -> Result<(), StoreError> {
        let mut reader = Reader::open(path)?;
        while !matches!(reader.next()?, Event::End(_)) {}
        Ok(())
    }

    #[test]
    fn a_backup_that_was_cut_or_changed_anywhere_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = written(folder.path());
        assert_eq!(read(&path), Ok(()));
        let whole = std::fs::read(&path).expect("its bytes");
        let other = folder.path().join("other");
        for place in 0..whole.len() {
            std::fs::write(&other, &whole[..place]).expect("cut");
            let cut = read(&other);
            assert!(matches!(cut, Err(StoreError::BackupInvalid(_))), "cut at {place}: {cut:?}");
            let mut flipped = whole.clone();
            flipped[place] ^= 1;
            std::fs::write(&other, flipped).expect("changed");
            let flipped = read(&other);
            let is_refused = matches!(flipped, Err(StoreError::BackupInvalid(_)));
            assert!(is_refused, "flipped at {place}: {flipped:?}");
        }
        std::fs::write(&other, [&*whole, b"x"].concat()).expect("longer");
        assert!(read(&other).is_err());
    }

    #[test]
    fn a_backup_never_takes_the_place_of_another_file_and_leaves_nothing_when_it_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = written(folder.path());
        let refused = Writer::create(&path).err();
        assert!(matches!(refused, Some(StoreError::NotEmpty(_))), "{refused:?}");
        drop(Writer::create(&folder.path().join("two")).expect("a writer"));
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}
