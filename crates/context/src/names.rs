//! Enums whose variants have names.

/// Gives an enum its list `ALL`, in the order of the rows, a name for each variant, and the variant
/// of a name. A variant without a row does not compile. With the name of a method after the type,
/// the names have that method, and are not looked up.
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// pub enum Size {
///     Small,
///     Large,
/// }
/// unisono_context::names!(Size {
///     Small = "s",
///     Large = "l",
/// });
///
/// assert_eq!(Size::ALL, [Size::Small, Size::Large]);
/// assert_eq!(Size::Large.name(), "l");
/// assert_eq!(Size::from_name("s"), Some(Size::Small));
/// assert_eq!(Size::from_name("m"), None);
/// ```
#[macro_export]
macro_rules! names {
    ($type:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        $crate::names!($type.name { $($variant = $name),+ });

        impl $type {
            /// The variant with this name.
            pub fn from_name(name: &str) -> Option<$type> {
                $type::ALL.into_iter().find(|one| one.name() == name)
            }
        }
    };
    ($type:ident.$method:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        impl $type {
            /// Every variant.
            pub const ALL: [$type; [$($name),+].len()] = [$($type::$variant),+];

            /// The name of the variant.
            pub const fn $method(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)+
                }
            }
        }
    };
}
