/// How the variants of an enum without fields are called: `names! { pub fn name(Verdict), ALL: Better "better", Worse "worse" }`
/// declares `name` of each, and with `ALL` the list of them, in this order.
#[macro_export]
macro_rules! names {
    ($vis:vis fn $name:ident($enum:ident), ALL: $($variant:ident $text:literal),+ $(,)?) => {
        impl $enum {
            /// All, in the order in which they are shown.
            $vis const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];
        }

        $crate::names! { $vis fn $name($enum): $($variant $text),+ }
    };
    ($vis:vis fn $name:ident($enum:ident): $($variant:ident $text:literal),+ $(,)?) => {
        impl $enum {
            /// As it is called there.
            $vis const fn $name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }
        }
    };
}
