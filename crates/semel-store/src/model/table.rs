//! A map that can go back to where it was: what makes a batch all or nothing.

use std::collections::BTreeMap;

pub(crate) struct Table<K, V> {
    rows: BTreeMap<K, V>,
    /// What each change of this batch replaced, the newest last.
    undo: Vec<(K, Option<V>)>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table { rows: BTreeMap::new(), undo: Vec::new() }
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

    /// The batch stands.
    pub(crate) fn keep(&mut self) {
        self.undo.clear();
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
