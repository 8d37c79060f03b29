//! Tables of settings: one struct of typed values per crate.

use core::any::Any;
use core::fmt::Debug;

use super::{ConfigError, Entry, Kind, Origin};

/// A row of a table: a variable of the settings `S`.
#[derive(Debug)]
pub struct Variable<S> {
    /// Its name.
    pub name: &'static str,
    /// Accepted values.
    pub kind: Kind,
    /// Meaning, in one line.
    pub meaning: &'static str,
    /// Returns the value as text.
    pub show: fn(&S, Kind) -> String,
    /// Sets the value; returns false and changes nothing if the text is not accepted.
    pub set: fn(&mut S, Kind, &str) -> bool,
}

/// The settings of one crate, made by [`settings!`](crate::settings).
pub trait Settings: Any + Clone + Debug + Default + PartialEq + Send + Sync {
    /// Heading of the table in the documentation.
    const TITLE: &'static str;
    /// Rows, in the order of the documentation.
    const VARIABLES: &'static [Variable<Self>];

    /// Checks conditions on several values.
    ///
    /// # Errors
    ///
    /// Fails if two values contradict each other.
    fn check(&self) -> Result<(), ConfigError>;
}

/// The settings of a crate whose type is not known.
pub trait Table: Any + Debug + Send + Sync {
    /// Returns the names of the variables, in the order of the documentation.
    fn names(&self) -> Vec<&'static str>;

    /// Returns the variables with their values. The origin is [`Origin::Default`].
    fn entries(&self) -> Vec<Entry>;

    /// Sets a variable; `None` if it is not one of this table.
    fn assign(&mut self, name: &str, text: &str) -> Option<Result<(), ConfigError>>;

    /// Checks conditions on several values, as [`Settings::check`] does.
    ///
    /// # Errors
    ///
    /// Fails if two values contradict each other.
    fn verify(&self) -> Result<(), ConfigError>;

    /// Returns a copy.
    fn copy(&self) -> Box<dyn Table>;

    /// Returns true if the other table has the same type and values.
    fn is_same(&self, other: &dyn Table) -> bool;
}

impl<S: Settings> Table for S {
    fn names(&self) -> Vec<&'static str> {
        S::VARIABLES.iter().map(|v| v.name).collect()
    }

    fn entries(&self) -> Vec<Entry> {
        let default = S::default();
        let entry = |v: &Variable<S>| Entry {
            name: v.name,
            value: (v.show)(self, v.kind),
            origin: Origin::Default,
            meaning: v.meaning,
            default: (v.show)(&default, v.kind),
            kind: v.kind,
            title: S::TITLE,
        };
        S::VARIABLES.iter().map(entry).collect()
    }

    fn assign(&mut self, name: &str, text: &str) -> Option<Result<(), ConfigError>> {
        let v = S::VARIABLES.iter().find(|v| v.name == name)?;
        Some(if (v.set)(self, v.kind, text) { Ok(()) } else { Err(ConfigError::value(v.name, text, v.kind)) })
    }

    fn verify(&self) -> Result<(), ConfigError> {
        self.check()
    }

    fn copy(&self) -> Box<dyn Table> {
        Box::new(self.clone())
    }

    fn is_same(&self, other: &dyn Table) -> bool {
        (other as &dyn Any).downcast_ref::<S>() == Some(self)
    }
}

impl Clone for Box<dyn Table> {
    fn clone(&self) -> Box<dyn Table> {
        (**self).copy()
    }
}

impl PartialEq for dyn Table {
    fn eq(&self, other: &dyn Table) -> bool {
        self.is_same(other)
    }
}

/// Declares a crate's settings: a struct of typed values, and its [`Settings`].
///
/// `Name: "heading" { rows } check: function`. A row is
/// `field: type = default, "NETMOD_NAME", kind, "meaning";`. The function checks conditions on
/// several values. The variables of a netmod begin with `NETMOD_<NAME>_`.
#[macro_export]
macro_rules! settings {
    (
        $( #[$doc:meta] )*
        $name:ident: $title:literal {
            $( $field:ident : $t:ty = $default:expr, $var:literal, $kind:expr, $meaning:literal; )*
        }
        check: $check:expr
    ) => {
        $( #[$doc] )*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( #[doc = concat!("`", $var, "`: ", $meaning, ".")] pub $field: $t, )*
        }

        impl ::core::default::Default for $name {
            fn default() -> $name {
                $name { $( $field: $default, )* }
            }
        }

        impl $crate::config::Settings for $name {
            const TITLE: &'static str = $title;
            const VARIABLES: &'static [$crate::config::Variable<$name>] = &[
                $( $crate::config::Variable {
                    name: $var,
                    kind: $kind,
                    meaning: $meaning,
                    show: |s, kind| $crate::config::Setting::show(&s.$field, kind),
                    set: |s, kind, text| $crate::config::assign(&mut s.$field, kind, text),
                }, )*
            ];

            fn check(&self) -> ::core::result::Result<(), $crate::config::ConfigError> {
                let check: fn(&$name) -> _ = $check;
                check(self)
            }
        }
    };
}
