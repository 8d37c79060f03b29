//! Netmods that running programs have registered, as their ranks tell.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use netmod_core::Config;

use super::Item;
use crate::launch::NETMODS;
use crate::top::reports_in;

/// How long ranks are waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// Adds the netmods that are not built in, of the programs whose ranks have their sockets in `NETMOD_STATUS`.
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
                let told = || format!("registered by rank {} of job {}: {opened}", report.rank, report.job);
                found.entry(netmod.clone()).or_insert_with(told);
            }
        }
    }
    // What `NETMOD` names is in the list already, as one that this program does not have.
    items.retain(|item| !matches!(item, Item::Netmod { name, .. } if found.contains_key(name)));
    items.extend(found.into_iter().map(|(name, detail)| Item::Netmod {
        name,
        usable: true,
        detail,
        addresses: Vec::new(),
    }));
}
