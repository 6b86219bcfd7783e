//! What ends a command or its instance on the way.

use super::*;

#[test]
fn a_set_that_is_interrupted_or_killed_anywhere_leaves_all_as_it_was_after_clear_at_the_latest() {
    let Some(hierarchy) = hierarchy() else { return };
    let place = Place::new("signals");
    let server = Server::start(&place, "one");
    let data = server.data.to_str().unwrap();
    let node = format!("/dev/{}", place.device);
    let former = groups(&hierarchy, &server);
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        for milliseconds in (0..40).step_by(5) {
            let mut child = start_set(data, &node, &[]);
            thread::sleep(Duration::from_millis(milliseconds));
            send(&child, signal);
            // None: before it could say what to do at that signal, or killed.
            let code = child.wait().unwrap().code();
            assert!(matches!(code, Some(0 | 130) | None), "{code:?}");
            match code {
                Some(0) => assert_ne!(groups(&hierarchy, &server), former),
                None if signal == Signal::KILL => {}
                _ => assert!(!is_left(&hierarchy, &former, &server), "{code:?}"),
            }
            if is_left(&hierarchy, &former, &server) {
                isolate(&["clear", "--instance", data]);
            }
            assert!(!is_left(&hierarchy, &former, &server));
            assert_eq!(groups(&hierarchy, &server), former);
        }
    }
    drop(server);
    place.end();
}

#[test]
fn limits_that_are_held_end_with_the_command_or_the_instance() {
    let Some(hierarchy) = hierarchy() else { return };
    let place = Place::new("hold");
    let server = Server::start(&place, "one");
    let data = server.data.to_str().unwrap().to_string();
    let node = format!("/dev/{}", place.device);
    let former = groups(&hierarchy, &server);
    let hold = || hold(&data, &node);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut child = hold();
        send(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert!(!is_left(&hierarchy, &former, &server));
        assert_eq!(groups(&hierarchy, &server), former);
    }

    // Killed, it can't lift them: show says so, and clear does.
    let mut child = hold();
    send(&child, Signal::KILL);
    child.wait().unwrap();
    assert_ne!(groups(&hierarchy, &server), former);
    let notes = isolate(&["show"]).notes;
    assert!(notes.iter().any(|note| note.contains("which was killed")), "{notes:?}");
    isolate(&["clear", "--instance", &data]);
    assert_eq!(groups(&hierarchy, &server), former);

    // Lifted by another command, and then the instance ends.
    let mut child = hold();
    isolate(&["clear", "--instance", &data]);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut child = hold();
    let group = hierarchy.directory(&groups(&hierarchy, &server)[0]);
    drop(server);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!group.exists());
    place.end();
}

#[test]
fn a_test_that_fails_leaves_nothing_behind() {
    let Some(hierarchy) = hierarchy() else { return };
    let mut left = None;
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let place = Place::new("fails");
        let server = Server::start(&place, "one");
        let data = server.data.to_str().unwrap().to_string();
        let mut child = hold(&data, &format!("/dev/{}", place.device));
        let group = hierarchy.directory(&groups(&hierarchy, &server)[0]);
        assert!(group.exists());
        left = Some((group, place.directory.clone(), data));
        send(&child, Signal::KILL);
        child.wait().unwrap();
        // As a failed assertion, but without its message.
        std::panic::resume_unwind(Box::new("failed"));
    }));
    assert!(failed.is_err());
    let (group, directory, data) = left.unwrap();
    assert!(!group.exists(), "{}", group.display());
    assert!(!directory.exists(), "{}", directory.display());
    let notes = isolate(&["show"]).notes;
    assert!(!notes.iter().any(|note| note.contains(&data)), "{notes:?}");
}
