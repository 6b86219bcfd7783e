use postgres::types::{FromSql, Type};

/// Text of the server's that may be in any encoding: what a user, a path or a setting is called in the configuration or in
/// the shared catalogs. The server hands it on as it is, and bytes that are no UTF-8 show as U+FFFD here. Read as a
/// `String`, such text is an error, and the whole row is lost for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub String);

impl<'a> FromSql<'a> for Text {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(String::from_utf8_lossy(raw).into_owned()))
    }

    fn accepts(ty: &Type) -> bool {
        <&str as FromSql>::accepts(ty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_another_encoding_can_be_shown() {
        let text = Text::from_sql(&Type::TEXT, b"/srv/caf\xe9").unwrap();
        assert_eq!(text.0, "/srv/caf\u{FFFD}");
        assert!(Text::accepts(&Type::NAME) && !Text::accepts(&Type::INT4));
    }
}
