//! `--forced`: a suite once for each algorithm of collective operations.
//!
//! A run sets one algorithm of every operation, so there are as many runs as the operation with the
//! most algorithms has.

use syn::{Expr, ExprLit, Item, Lit};

use crate::command::root;

/// The table of the settings and their values.
const TABLE: &str = "ch3-shim/src/config/coll.rs";
/// Its name there.
const NAME: &str = "COLLECTIVES";

/// Returns the variables of each run.
///
/// # Errors
/// If the table of settings is not where it is looked for.
pub(super) fn runs() -> Result<Vec<Vec<(String, String)>>, String> {
    let path = root().join(TABLE);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let table = table(&text).ok_or_else(|| format!("{}: there is no table {NAME}", path.display()))?;
    Ok(of(&table))
}

/// The first value lets the library choose.
fn of(table: &[(String, Vec<String>)]) -> Vec<Vec<(String, String)>> {
    let longest = table.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let value = |values: &[String], at: usize| values[1 + (at - 1) % (values.len() - 1)].clone();
    let run = |at| {
        let settings = table.iter().filter(|(_, values)| values.len() > 1);
        settings.map(|(name, values)| (name.clone(), value(values, at))).collect()
    };
    (1..longest).map(run).collect()
}

/// Reads the table out of the source.
fn table(text: &str) -> Option<Vec<(String, Vec<String>)>> {
    let file = syn::parse_file(text).ok()?;
    let found = file.items.iter().find_map(|item| match item {
        Item::Const(item) if item.ident == NAME => Some(&*item.expr),
        _ => None,
    });
    let Expr::Array(rows) = found? else { return None };
    rows.elems.iter().map(row).collect()
}

fn row(expr: &Expr) -> Option<(String, Vec<String>)> {
    let Expr::Tuple(pair) = expr else { return None };
    let Expr::Reference(values) = pair.elems.get(1)? else { return None };
    let Expr::Array(values) = &*values.expr else { return None };
    Some((text_of(pair.elems.first()?)?, values.elems.iter().map(text_of).collect::<Option<_>>()?))
}

fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// Returns the words that tell a run from the others.
pub(super) fn told(variables: &[(String, String)]) -> String {
    let word = |(name, value): &(String, String)| {
        format!("{} {value}", name.replace("NETMOD_COLL_", "").to_lowercase())
    };
    variables.iter().map(word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_but_the_first_is_in_a_run() {
        let text = r#"pub const COLLECTIVES: [(&str, &[&str]); 2] =
            [("NETMOD_COLL_A", &["auto", "x", "y"]), ("NETMOD_COLL_B", &["auto", "z"])];"#;
        let runs = of(&table(text).expect("a table"));
        let told: Vec<String> = runs.iter().map(|run| super::told(run)).collect();
        assert_eq!(told, ["a x, b z", "a y, b z"]);
    }

    #[test]
    fn the_table_of_this_tree_is_found() {
        let runs = runs().expect("the table");
        assert!(runs.len() >= 5 && runs.iter().all(|run| run.len() == 10), "{runs:?}");
        assert!(runs.iter().any(|run| run.contains(&("NETMOD_COLL_BCAST".into(), "circulant".into()))));
    }
}
