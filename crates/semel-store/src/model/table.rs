//! A map that can go back to where it was: what makes a batch all or nothing.

use std::collections::BTreeMap;

pub(crate) struct Table<K, V> {
    rows: BTreeMap<K, V>,
    /// What each change of this batch replaced, the newest last.
    undo: Vec<(K, Option<V>)>,
    /// What was changed since the rows were loaded, and whether it had been there.
    changed: Option<BTreeMap<K, bool>>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table { rows: BTreeMap::new(), undo: Vec::new(), changed: None }
    }
}

impl<K: Ord + Clone, V> Table<K, V> {
    pub(crate) fn rows(&self) -> &BTreeMap<K, V> {
        &self.rows
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)
    }

    pub(crate) fn put(&mut self, key: K, value: V) {
        let before = self.rows.insert(key.clone(), value);
        self.undo.push((key, before));
    }

    pub(crate) fn remove(&mut self, key: &K) {
        if let Some(before) = self.rows.remove(key) {
            self.undo.push((key.clone(), Some(before)));
        }
    }

    pub(crate) fn remove_all(&mut self, keys: impl IntoIterator<Item = K>) {
        keys.into_iter().for_each(|key| self.remove(&key));
    }

    /// Puts a row that is there already.
    pub(crate) fn load(&mut self, key: K, value: V) {
        self.rows.insert(key, value);
    }

    /// Notes all changes from now on.
    pub(crate) fn track(&mut self) {
        self.changed = Some(BTreeMap::new());
    }

    /// Each row that was changed since: whether it had been there, and what is there now.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&K, bool, Option<&V>)> {
        let changed = self.changed.iter().flatten();
        changed.map(|(key, had_been)| (key, *had_been, self.rows.get(key)))
    }

    /// The batch stands.
    pub(crate) fn keep(&mut self) {
        match &mut self.changed {
            None => self.undo.clear(),
            Some(changed) => {
                for (key, before) in self.undo.drain(..) {
                    changed.entry(key).or_insert(before.is_some());
                }
            }
        }
    }

    /// The batch never was.
    pub(crate) fn undo(&mut self) {
        while let Some((key, before)) = self.undo.pop() {
            match before {
                Some(value) => self.rows.insert(key, value),
                None => self.rows.remove(&key),
            };
        }
    }
}
