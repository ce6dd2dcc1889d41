//! Python's spelling of values: `json.dumps` and `repr`.

use minijinja::value::ValueKind;
use minijinja::{Error, Value};
use std::fmt::Write;

/// The arguments of `json.dumps`.
pub struct Layout<'a> {
    pub indent: Option<usize>,
    pub item: &'a str,
    pub key: &'a str,
    pub ensure_ascii: bool,
    pub sort_keys: bool,
}

/// Appends `json.dumps(v)` at nesting `depth`.
pub fn dump(out: &mut String, v: &serde_json::Value, l: &Layout, depth: usize) {
    match v {
        serde_json::Value::Array(a) if !a.is_empty() => {
            out.push('[');
            for (i, e) in a.iter().enumerate() {
                separate(out, l, i, depth + 1);
                dump(out, e, l, depth + 1);
            }
            new_line(out, l, depth);
            out.push(']');
        }
        serde_json::Value::Object(m) if !m.is_empty() => {
            let mut entries: Vec<_> = m.iter().collect();
            if l.sort_keys {
                entries.sort_by_key(|(k, _)| *k);
            }
            out.push('{');
            for (i, (k, e)) in entries.into_iter().enumerate() {
                separate(out, l, i, depth + 1);
                quote(out, k, l.ensure_ascii);
                out.push_str(l.key);
                dump(out, e, l, depth + 1);
            }
            new_line(out, l, depth);
            out.push('}');
        }
        serde_json::Value::String(s) => quote(out, s, l.ensure_ascii),
        serde_json::Value::Number(n) if n.is_f64() => out.push_str(&float(n.as_f64().unwrap_or(f64::NAN))),
        other => out.push_str(&other.to_string()),
    }
}

fn separate(out: &mut String, l: &Layout, index: usize, depth: usize) {
    if index > 0 {
        out.push_str(l.item);
    }
    new_line(out, l, depth);
}

fn new_line(out: &mut String, l: &Layout, depth: usize) {
    if let Some(n) = l.indent {
        out.push('\n');
        out.push_str(&" ".repeat(n * depth));
    }
}

fn quote(out: &mut String, s: &str, ensure_ascii: bool) {
    let quoted = serde_json::Value::from(s).to_string();
    if !ensure_ascii {
        out.push_str(&quoted);
        return;
    }
    for c in quoted.chars() {
        match c {
            ' '..='~' => out.push(c),
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|u| {
                let _ = write!(out, "\\u{u:04x}");
            }),
        }
    }
}

/// Python's `repr` of a float: the shortest digits, with an exponent below 1e-4 and from 1e16 on.
pub fn float(f: f64) -> String {
    if f.is_nan() {
        return "nan".into();
    }
    if f.is_infinite() {
        return if f > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let scientific = format!("{f:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return format!("{f:?}");
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// Appends Python's `repr(v)`.
pub fn repr(out: &mut String, v: &Value) -> Result<(), Error> {
    match v.kind() {
        ValueKind::None | ValueKind::Undefined => out.push_str("None"),
        ValueKind::Bool => out.push_str(if v.is_true() { "True" } else { "False" }),
        ValueKind::Number if !v.is_integer() => out.push_str(&float(f64::try_from(v.clone())?)),
        ValueKind::String => repr_text(out, v.as_str().unwrap_or_default()),
        ValueKind::Seq => {
            out.push('[');
            for (i, e) in v.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(out, &e)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (i, k) in v.try_iter()?.enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(out, &k)?;
                out.push_str(": ");
                repr(out, &v.get_item(&k)?)?;
            }
            out.push('}');
        }
        _ => out.push_str(&v.to_string()),
    }
    Ok(())
}

fn repr_text(out: &mut String, s: &str) {
    let mark = if s.contains('\'') && !s.contains('"') { '"' } else { '\'' };
    out.push(mark);
    for c in s.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == mark => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 || c == '\x7f' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(mark);
}
