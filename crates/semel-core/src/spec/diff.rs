//! Two texts, line by line: what a reviewer wants to see when a committed spec is old.

/// Lines around a change that are shown, to say where it is.
const AROUND: usize = 2;
/// Lines compared with each other at most: beyond it only the first difference is shown.
const CELLS_MAX: usize = 4_000_000;

/// The lines that differ, `-` for those of `old` and `+` for those of `new`, each group with what
/// stands around it. `None` when the texts are the same.
pub fn diff(old: &str, new: &str) -> Option<String> {
    if old == new {
        return None;
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (lines(old), lines(new));
    let same_start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - same_start;
    let ends = old.iter().rev().zip(new.iter().rev());
    let same_end = ends.take(rest).take_while(|(a, b)| a == b).count();
    let (from, to) =
        (&old[same_start..old.len() - same_end], &new[same_start..new.len() - same_end]);
    let mut marked: Vec<(char, &str)> = old[..same_start].iter().map(|line| (' ', *line)).collect();
    marked.extend(compare(from, to));
    marked.extend(old[old.len() - same_end..].iter().map(|line| (' ', *line)));
    Some(with_context(&marked))
}

/// Also what ends the last line counts: a file without it differs.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// The longest common subsequence, from the end: `table[i][j]` is that of `old[i..]`, `new[j..]`.
fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let width = new.len() + 1;
    if (old.len() + 1).saturating_mul(width) > CELLS_MAX {
        let first = |mark, lines: &[&'a str]| lines.first().map(|line| (mark, *line));
        return [first('-', old), first('+', new)].into_iter().flatten().collect();
    }
    let mut table = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            table[i * width + j] = if old[i] == new[j] {
                table[(i + 1) * width + j + 1] + 1
            } else {
                table[(i + 1) * width + j].max(table[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut marked) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            marked.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || i < old.len() && table[(i + 1) * width + j] >= table[i * width + j + 1]
        {
            marked.push(('-', old[i]));
            i += 1;
        } else {
            marked.push(('+', new[j]));
            j += 1;
        }
    }
    marked
}

fn with_context(marked: &[(char, &str)]) -> String {
    let is_near = |at: usize| {
        let (start, end) = (at.saturating_sub(AROUND), (at + AROUND + 1).min(marked.len()));
        marked[start..end].iter().any(|(mark, _)| *mark != ' ')
    };
    let mut shown = String::new();
    let mut was_near = true;
    for (at, (mark, line)) in marked.iter().enumerate() {
        let near = is_near(at);
        if near && !was_near && !shown.is_empty() {
            shown.push_str("  …\n");
        }
        if near {
            let line = line.strip_suffix('\n').unwrap_or(line);
            shown.push_str(format!("{mark} {line}").trim_end());
            shown.push('\n');
        }
        was_near = near;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, want: &str) {
        assert_eq!(diff(old, new).as_deref(), Some(want));
    }

    #[test]
    fn only_what_differs_is_shown_with_its_neighbours() {
        assert_eq!(diff("a\nb\n", "a\nb\n"), None);
        check("a\nb\nc\n", "a\nx\nc\n", "  a\n- b\n+ x\n  c\n");
        check("", "a\n", "+ a\n");
        check("a\n", "", "- a\n");
        check("1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\n4\n5\n6\n8\n", "  5\n  6\n- 7\n+ 8\n");
        let old = "a\n1\n2\n3\n4\n5\n6\nb\n";
        let new = "x\n1\n2\n3\n4\n5\n6\ny\n";
        check(old, new, "- a\n+ x\n  1\n  2\n  …\n  5\n  6\n- b\n+ y\n");
    }

    #[test]
    fn a_missing_line_break_at_the_end_is_a_difference() {
        check("a\n", "a", "- a\n+ a\n");
    }
}
