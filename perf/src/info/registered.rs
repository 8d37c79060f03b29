//! Reports netmods that running programs have registered.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ch3_shim::Config;

use super::Item;
use crate::launch::NETMODS;
use crate::top::reports_in;

/// Time limit for answers of ranks.
const PATIENCE: Duration = Duration::from_millis(500);

/// Adds the registered netmods of the programs whose ranks have sockets in `NETMOD_STATUS`.
pub(super) fn report(cfg: &Config, items: &mut Vec<Item>) {
    if cfg.status.is_empty() {
        return;
    }
    let reports = match reports_in(Path::new(&cfg.status), PATIENCE) {
        Ok(reports) => reports,
        Err(e) => return items.push(Item::Warning { text: format!("netmods of running programs: {e}") }),
    };
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for report in reports {
        for (netmod, opened) in report.netmods.iter().zip(&report.opened) {
            if !NETMODS.contains(&netmod.as_str()) {
                let describe =
                    || format!("registered by rank {} of job {}: {opened}", report.rank, report.job);
                found.entry(netmod.clone()).or_insert_with(describe);
            }
        }
    }
    // Replaces the entry of a name in `NETMOD` that this program does not know.
    items.retain(|item| !matches!(item, Item::Netmod { name, .. } if found.contains_key(name)));
    items.extend(found.into_iter().map(|(name, detail)| Item::Netmod {
        name,
        usable: true,
        detail,
        addresses: Vec::new(),
    }));
}
