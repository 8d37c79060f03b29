//! The user's selection of providers and domains: lists of names, patterns and subnets.

use core::net::IpAddr;

use netmod_matching::address::{in_subnet, width};
use netmod_matching::glob;

/// A list of providers such as `tcp,verbs;ofi_rxm,!sockets`: names to include, most preferred
/// first, and names to exclude.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Providers {
    include: Vec<String>,
    exclude: Vec<String>,
}

/// Returns the non-empty names of a list: those to include, and those to exclude.
fn parts(text: &str) -> (Vec<String>, Vec<String>) {
    let (mut include, mut exclude) = (Vec::new(), Vec::new());
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        match part.strip_prefix('!') {
            Some(name) => exclude.push(name.trim_start().to_owned()),
            None => include.push(part.to_owned()),
        }
    }
    (include, exclude)
}

/// Returns the provider that moves the bytes, given a name such as `tcp;ofi_rxm`.
pub fn core_name(provider: &str) -> &str {
    provider.split(';').next().unwrap_or(provider)
}

fn matches(pattern: &str, name: &str) -> bool {
    glob(pattern.to_ascii_lowercase().as_bytes(), name.to_ascii_lowercase().as_bytes())
}

impl Providers {
    /// Parses a list; an empty one selects all.
    pub fn parse(text: &str) -> Providers {
        let (include, exclude) = parts(text);
        Providers { include, exclude }
    }

    /// Returns the included names in order.
    pub fn wanted(&self) -> &[String] {
        &self.include
    }

    /// Returns true if any name is included explicitly.
    pub fn names_any(&self) -> bool {
        !self.include.is_empty()
    }

    /// Returns the position of the name that includes a provider. A name without a layer, such as
    /// `tcp`, means the provider itself if it is in `all`, and otherwise the layers over it, such
    /// as `tcp;ofi_rxm`.
    pub fn position<'a>(&self, provider: &str, all: impl Iterator<Item = &'a str> + Clone) -> Option<usize> {
        self.include.iter().position(|wanted| {
            matches(wanted, provider)
                || (!wanted.contains(';')
                    && matches(wanted, core_name(provider))
                    && !all.clone().any(|other| matches(wanted, other)))
        })
    }

    /// Returns the excluded name that matches a provider or one of its layers.
    pub fn shut_out(&self, provider: &str) -> Option<&str> {
        let by = |pattern: &&String| {
            matches(pattern, provider) || provider.split(';').any(|layer| matches(pattern, layer))
        };
        self.exclude.iter().find(by).map(String::as_str)
    }
}

/// A list of domains such as `mlx5_*,!mlx5_3,192.0.2.0/24`: names, patterns, addresses or subnets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domains {
    include: Vec<String>,
    exclude: Vec<String>,
}

impl Domains {
    /// Parses a list; an empty one selects all.
    pub fn parse(text: &str) -> Domains {
        let (include, exclude) = parts(text);
        Domains { include, exclude }
    }

    /// Returns true if a domain of this name and address is included explicitly.
    pub fn names(&self, name: &str, ip: Option<IpAddr>) -> bool {
        self.include.iter().any(|part| part_matches(part, name, ip))
    }

    /// Returns true if a domain may be used.
    pub fn passes(&self, name: &str, ip: Option<IpAddr>) -> bool {
        (self.include.is_empty() || self.names(name, ip))
            && !self.exclude.iter().any(|part| part_matches(part, name, ip))
    }
}

fn part_matches(part: &str, name: &str, ip: Option<IpAddr>) -> bool {
    glob(part.as_bytes(), name.as_bytes())
        || ip.is_some_and(|ip| subnet(part).is_some_and(|(net, prefix)| in_subnet(ip, net, prefix)))
}

/// Parses an address or a subnet.
fn subnet(part: &str) -> Option<(IpAddr, u8)> {
    let (net, prefix) = match part.split_once('/') {
        Some((net, prefix)) => (net, Some(prefix.parse::<u8>().ok()?)),
        None => (part, None),
    };
    let net: IpAddr = net.parse().ok()?;
    let prefix = prefix.unwrap_or(width(net));
    (prefix <= width(net)).then_some((net, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_the_provider_or_else_the_layers_over_it() {
        let old = ["tcp;ofi_rxm", "net", "net;ofi_rxm", "udp;ofi_rxd"];
        let new = ["tcp", "tcp;ofi_rxm", "udp;ofi_rxd"];
        let position =
            |list: &str, all: &[&str], name: &str| Providers::parse(list).position(name, all.iter().copied());
        assert_eq!(position("tcp", &old, "tcp;ofi_rxm"), Some(0));
        assert_eq!(position("tcp", &new, "tcp;ofi_rxm"), None);
        assert_eq!(position("tcp", &new, "tcp"), Some(0));
        assert_eq!(position("net", &old, "net;ofi_rxm"), None);
        assert_eq!(position(" udp , tcp;ofi_rxm", &new, "tcp;ofi_rxm"), Some(1));
        assert_eq!(position("udp, tcp", &new, "udp;ofi_rxd"), Some(0));
        assert_eq!(position("*", &new, "tcp;ofi_rxm"), Some(0));
        assert_eq!(position("TCP", &new, "tcp"), Some(0));
        assert_eq!(position("t", &new, "tcp"), None);
        assert_eq!(position("", &new, "tcp"), None);
        assert!(!Providers::parse("!x").names_any() && Providers::parse("x").names_any());
    }

    #[test]
    fn a_name_shuts_out_whatever_has_it_as_a_layer() {
        let shut = |list: &str, name: &str| Providers::parse(list).shut_out(name).map(str::to_owned);
        assert_eq!(shut("!tcp", "tcp;ofi_rxm").as_deref(), Some("tcp"));
        assert_eq!(shut("!ofi_rx*", "tcp;ofi_rxm").as_deref(), Some("ofi_rx*"));
        assert_eq!(shut("!tcp;ofi_rxm", "tcp"), None);
        assert_eq!(shut("tcp,!udp", "tcp"), None);
    }

    #[test]
    fn domains_are_chosen_by_name_or_address() {
        let ip: IpAddr = [192, 0, 2, 7].into();
        let d = Domains::parse("mlx5_*, 192.0.2.0/24, !mlx5_3");
        assert!(d.passes("mlx5_0", None) && !d.passes("mlx5_3", None) && !d.passes("eth1", None));
        assert!(d.passes("eth0", Some(ip)) && !d.passes("eth0", Some([192, 0, 3, 7].into())));
        assert!(Domains::parse("192.0.2.7").passes("eth0", Some(ip)));
        assert!(!Domains::parse("!192.0.2.7").passes("eth0", Some(ip)));
        assert!(Domains::parse("").passes("eth0", Some(ip)) && !Domains::parse("").names("eth0", Some(ip)));
        assert!(!Domains::parse("192.0.2.7/40").passes("eth0", Some(ip)));
    }
}
