//! Enums without fields: each variant is its position in the list, as four bytes.

/// Declares the enum on disk of a domain enum, with the conversions both ways. The order of the
/// list is the format: new variants go to its end. The compiler refuses a list that is not whole.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident = $domain:ty { $($variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub(crate) enum $name {
            $($variant),+
        }

        impl From<$domain> for $name {
            fn from(value: $domain) -> Self {
                match value {
                    $(<$domain>::$variant => Self::$variant),+
                }
            }
        }

        impl From<$name> for $domain {
            fn from(value: $name) -> Self {
                match value {
                    $($name::$variant => Self::$variant),+
                }
            }
        }
    };
}

pub(crate) use codes;
