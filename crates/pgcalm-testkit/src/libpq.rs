//! libpq itself, to hold against it what is made to be as it is. It is loaded where a test asks: no program is linked to it.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NOW: c_int = 2;

/// `PQconninfoOption`.
#[repr(C)]
struct ConninfoOption {
    keyword: *const c_char,
    variable: *const c_char,
    compiled: *const c_char,
    value: *const c_char,
    label: *const c_char,
    display: *const c_char,
    size: c_int,
}

type Parse = unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> *mut ConninfoOption;
type Start = unsafe extern "C" fn(*const c_char) -> *mut c_void;
type Password = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type Release = unsafe extern "C" fn(*mut c_void);

struct Library {
    parse: Parse,
    free_options: Release,
    free: Release,
    start: Start,
    password: Password,
    finish: Release,
}

fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref()
}

fn load() -> Option<Library> {
    // SAFETY: the name ends with a zero. libpq's initialisers do nothing that another thread could see.
    let library = unsafe { dlopen(c"libpq.so.5".as_ptr(), RTLD_NOW) };
    if library.is_null() {
        return None;
    }
    let symbol = |name: &CStr| {
        // SAFETY: the library is never closed, and the name ends with a zero.
        let address = unsafe { dlsym(library, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    };
    // SAFETY: libpq-fe.h declares functions of these names with these types, and so it has since version 9.
    unsafe {
        Some(Library {
            parse: std::mem::transmute::<*mut c_void, Parse>(symbol(c"PQconninfoParse")?),
            free_options: std::mem::transmute::<*mut c_void, Release>(symbol(c"PQconninfoFree")?),
            free: std::mem::transmute::<*mut c_void, Release>(symbol(c"PQfreemem")?),
            start: std::mem::transmute::<*mut c_void, Start>(symbol(c"PQconnectStart")?),
            password: std::mem::transmute::<*mut c_void, Password>(symbol(c"PQpass")?),
            finish: std::mem::transmute::<*mut c_void, Release>(symbol(c"PQfinish")?),
        })
    }
}

/// Whether it is there.
pub fn is_there() -> bool {
    library().is_some()
}

/// What `PQconninfoParse` makes of a connection string: the parameters that it gives, or the message.
///
/// # Panics
/// Where libpq is not there, and for text with a zero in it.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let library = library().expect("libpq");
    let text = CString::new(text).expect("text without a zero");
    let mut message = ptr::null_mut();
    // SAFETY: both pointers are valid during the call.
    let options = unsafe { (library.parse)(text.as_ptr(), &mut message) };
    if options.is_null() {
        // SAFETY: without options there is a message, which is freed once, after it was copied.
        unsafe {
            let copy = owned(message).unwrap_or_default();
            (library.free)(message.cast());
            return Err(copy);
        }
    }
    let mut given = BTreeMap::new();
    // SAFETY: the options end with one whose keyword is null; texts are null or end with a zero. They are freed once, after
    // they were copied.
    unsafe {
        let mut option = options;
        while let Some(keyword) = owned((*option).keyword) {
            given.extend(owned((*option).value).map(|value| (keyword, value)));
            option = option.add(1);
        }
        (library.free_options)(options.cast());
    }
    Ok(given)
}

/// The password that it would give to a server, which need not be there.
///
/// # Panics
/// As [`parse`].
pub fn password(text: &str) -> Option<String> {
    let library = library().expect("libpq");
    let text = CString::new(text).expect("text without a zero");
    // SAFETY: a connection that is null or has failed may be asked for its password and be finished, too.
    unsafe {
        let connection = (library.start)(text.as_ptr());
        let password = owned((library.password)(connection));
        (library.finish)(connection);
        password.filter(|password| !password.is_empty())
    }
}

/// A copy.
///
/// # Safety
/// The text is null or ends with a zero.
unsafe fn owned(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: as promised.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}
