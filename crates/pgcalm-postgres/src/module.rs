//! Where the views of pg_calm are.

use crate::Client;
use postgres::Error;

/// The schema of the extension `pg_calm`, quoted, as an expression; null where this database does not have it. Sessions look for
/// names in `pg_catalog` only.
pub const MODULE_SCHEMA: &str = "(SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace \
     WHERE extname = 'pg_calm')";

/// The same of an extension beside it, e.g. `pg_calm_archive`.
pub fn extension_schema(name: &str) -> String {
    MODULE_SCHEMA.replace("'pg_calm'", &format!("'{name}'"))
}

/// What [`MODULE_SCHEMA`] stands for.
pub fn module_schema(client: &mut Client) -> Result<Option<String>, Error> {
    client.query_one(&format!("SELECT {MODULE_SCHEMA}"), &[])?.try_get(0)
}
