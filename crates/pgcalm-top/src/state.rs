//! What the user has chosen to look at: page, instance, moment. Keys change it, nothing else does; it knows neither
//! terminal nor model, only the names of the instances and the moments that there are pictures of.

/// What is shown below the title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Page {
    /// The instances, and the chosen one's figures.
    #[default]
    Overview,
    /// The chosen instance's figures over time.
    Charts,
    /// All that is missing, in full, with the way out.
    Missing,
}

pgcalm_host::names! { pub fn name(Page), ALL: Overview "overview", Charts "charts", Missing "missing" }

impl Page {
    fn step(self, by: usize) -> Self {
        // ALL has each page.
        let at = Self::ALL.iter().position(|page| *page == self).unwrap_or(0);
        Self::ALL[(at + by) % Self::ALL.len()]
    }
}

/// The moment whose picture is shown, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Moment {
    /// The newest, always.
    #[default]
    Live,
    /// That of this moment, or the first after it once history no longer reaches back so far.
    At(f64),
}

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// End.
    Quit,
    /// Stop the process as Ctrl-Z does with any program; it goes on with `fg`.
    Suspend,
    /// Draw all anew.
    Redraw,
    /// Show or hide the list of keys.
    Help,
    /// Hide the list of keys, or go back to the overview.
    Back,
    /// The next instance of the list.
    NextInstance,
    /// The one before.
    PreviousInstance,
    /// A page.
    Page(Page),
    /// The next page, round and round.
    NextPage,
    /// The page before.
    PreviousPage,
    /// Stop at the moment that is shown, or go on with the newest.
    Pause,
    /// So many pictures back.
    Earlier(usize),
    /// So many pictures on; beyond the newest it goes on live.
    Later(usize),
    /// A minute back.
    MinuteEarlier,
    /// A minute on; beyond the newest it goes on live.
    MinuteLater,
    /// The oldest picture.
    Oldest,
    /// The newest, live.
    Live,
    /// Curves show less time.
    ShorterSpan,
    /// Curves show more time.
    LongerSpan,
}

/// What the loop around the pictures has to do after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Show the picture.
    Draw,
    /// Show all of it anew.
    Redraw,
    /// End.
    Quit,
    /// Stop the process.
    Suspend,
}

/// What the user has chosen.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// Page.
    pub page: Page,
    /// Identity of the chosen instance; the first of the list if it isn't there, or none was chosen.
    pub instance: Option<String>,
    /// Moment.
    pub moment: Moment,
    /// Whether the list of keys covers the picture.
    pub help: bool,
    /// Time that curves show.
    pub span: Span,
}

/// How much time curves show: one of a few steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(usize);

impl Span {
    /// In seconds: a minute, 5, 15, an hour.
    const STEPS: [f64; 4] = [60.0, 300.0, 900.0, 3600.0];

    fn shorter(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    fn longer(self) -> Self {
        Self((self.0 + 1).min(Self::STEPS.len() - 1))
    }
}

impl Default for Span {
    /// 5 minutes: a checkpoint with the server's own checkpoint_timeout.
    fn default() -> Self {
        Self(1)
    }
}

impl State {
    /// Does what a key asks for. `instances` are the identities as they are listed, `moments` those of the pictures that
    /// there are, oldest first.
    pub fn apply(&mut self, command: Command, instances: &[String], moments: &[f64]) -> Then {
        match command {
            Command::Quit => return Then::Quit,
            Command::Suspend => return Then::Suspend,
            Command::Redraw => return Then::Redraw,
            Command::Help => self.help = !self.help,
            Command::Back if self.help => self.help = false,
            Command::Back => self.page = Page::Overview,
            Command::NextInstance => self.choose(instances, |at| at + 1),
            Command::PreviousInstance => self.choose(instances, |at| at.saturating_sub(1)),
            Command::Page(page) => self.page = page,
            Command::NextPage => self.page = self.page.step(1),
            Command::PreviousPage => self.page = self.page.step(Page::ALL.len() - 1),
            Command::Pause => {
                self.moment = match (self.moment, moments.last()) {
                    (Moment::Live, Some(newest)) => Moment::At(*newest),
                    _ => Moment::Live,
                }
            }
            Command::Earlier(pictures) => self.travel(moments, |at| at.saturating_sub(pictures)),
            Command::Later(pictures) => self.travel(moments, |at| at + pictures),
            Command::MinuteEarlier => self.travel(moments, |at| {
                let goal = moments[at] - 60.0;
                // After a gap that is longer there is no other within a minute.
                moments.partition_point(|moment| *moment < goal).min(at.saturating_sub(1))
            }),
            Command::MinuteLater => self.travel(moments, |at| {
                let goal = moments[at] + 60.0;
                moments.partition_point(|moment| *moment < goal)
            }),
            Command::Oldest => self.travel(moments, |_| 0),
            Command::Live => self.moment = Moment::Live,
            Command::ShorterSpan => self.span = self.span.shorter(),
            Command::LongerSpan => self.span = self.span.longer(),
        }
        Then::Draw
    }

    /// Seconds before the moment that curves show.
    pub fn span_seconds(&self) -> f64 {
        Span::STEPS[self.span.0]
    }

    /// Which of `moments` is shown; `None` if there are none.
    pub fn shown(&self, moments: &[f64]) -> Option<usize> {
        let newest = moments.len().checked_sub(1)?;
        Some(match self.moment {
            Moment::Live => newest,
            Moment::At(at) => moments.partition_point(|moment| *moment < at).min(newest),
        })
    }

    /// Which of `instances` is the chosen one; `None` if there are none.
    pub fn chosen(&self, instances: &[String]) -> Option<usize> {
        let at = |name: &String| instances.iter().position(|instance| instance == name);
        let first = (!instances.is_empty()).then_some(0);
        self.instance.as_ref().and_then(at).or(first)
    }

    fn choose(&mut self, instances: &[String], to: impl FnOnce(usize) -> usize) {
        if let Some(at) = self.chosen(instances) {
            let at = to(at).min(instances.len() - 1);
            self.instance = Some(instances[at].clone());
        }
    }

    fn travel(&mut self, moments: &[f64], to: impl FnOnce(usize) -> usize) {
        if let Some(at) = self.shown(moments) {
            self.moment = match moments.get(to(at)) {
                Some(moment) => Moment::At(*moment),
                None => Moment::Live,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    /// Pictures of each second from 100 to 299.
    fn moments() -> Vec<f64> {
        (100..300).map(f64::from).collect()
    }

    /// The moment that is shown after some commands.
    fn shown(commands: &[Command]) -> f64 {
        let moments = moments();
        let mut state = State::default();
        for command in commands {
            assert_eq!(state.apply(*command, &[], &moments), Then::Draw);
        }
        moments[state.shown(&moments).unwrap()]
    }

    #[test]
    fn time_travel_stays_within_history() {
        assert_eq!(shown(&[]), 299.0);
        assert_eq!(shown(&[Command::Earlier(1)]), 298.0);
        assert_eq!(shown(&[Command::Earlier(1), Command::Earlier(10)]), 288.0);
        assert_eq!(shown(&[Command::MinuteEarlier]), 239.0);
        assert_eq!(shown(&[Command::MinuteEarlier, Command::MinuteLater]), 299.0);
        assert_eq!(shown(&[Command::Oldest]), 100.0);
        assert_eq!(shown(&[Command::Oldest, Command::Earlier(1)]), 100.0);
        assert_eq!(shown(&[Command::Oldest, Command::MinuteEarlier]), 100.0);
        assert_eq!(shown(&[Command::Oldest, Command::Later(5)]), 105.0);
        assert_eq!(shown(&[Command::Oldest, Command::Live]), 299.0);
    }

    #[test]
    fn a_minute_leads_over_a_gap_that_is_longer() {
        let moments = [100.0, 101.0, 200.0];
        let mut state = State::default();
        state.apply(Command::MinuteEarlier, &[], &moments);
        assert_eq!(state.moment, Moment::At(101.0));
        state.apply(Command::MinuteLater, &[], &moments);
        assert_eq!(state.moment, Moment::At(200.0));
    }

    #[test]
    fn later_than_the_newest_is_live() {
        let moments = moments();
        let mut state = State::default();
        state.apply(Command::Earlier(2), &[], &moments);
        state.apply(Command::Later(1), &[], &moments);
        assert_eq!(state.moment, Moment::At(298.0));
        state.apply(Command::Later(2), &[], &moments);
        assert_eq!(state.moment, Moment::Live);
    }

    #[test]
    fn a_pause_keeps_its_moment_while_new_pictures_come_and_old_ones_go() {
        let mut moments = moments();
        let mut state = State::default();
        state.apply(Command::Pause, &[], &moments);
        moments.push(300.0);
        assert_eq!(moments[state.shown(&moments).unwrap()], 299.0);
        moments.drain(..200);
        assert_eq!(moments[state.shown(&moments).unwrap()], 300.0);
        state.apply(Command::Pause, &[], &moments);
        assert_eq!(state.moment, Moment::Live);
    }

    #[test]
    fn nothing_to_travel_in_and_nothing_to_choose_from_is_no_trouble() {
        let mut state = State::default();
        for command in [
            Command::Earlier(1),
            Command::MinuteEarlier,
            Command::Oldest,
            Command::Pause,
            Command::NextInstance,
            Command::PreviousInstance,
        ] {
            assert_eq!(state.apply(command, &[], &[]), Then::Draw);
        }
        assert_eq!(state, State::default());
        assert_eq!(state.shown(&[]), None);
        assert_eq!(state.chosen(&[]), None);
    }

    #[test]
    fn the_chosen_instance_stays_chosen_when_the_list_changes() {
        let mut state = State::default();
        let list = names(&["a", "b", "c"]);
        assert_eq!(state.chosen(&list), Some(0));
        state.apply(Command::PreviousInstance, &list, &[]);
        state.apply(Command::NextInstance, &list, &[]);
        assert_eq!(state.chosen(&list), Some(1));
        assert_eq!(state.chosen(&names(&["0", "a", "b"])), Some(2));
        // Gone, and back.
        assert_eq!(state.chosen(&names(&["a", "c"])), Some(0));
        assert_eq!(state.chosen(&list), Some(1));
        for _ in 0..5 {
            state.apply(Command::NextInstance, &list, &[]);
        }
        assert_eq!(state.chosen(&list), Some(2));
    }

    #[test]
    fn curves_show_a_minute_to_an_hour() {
        let mut state = State::default();
        let mut after = |command| {
            state.apply(command, &[], &[]);
            state.span_seconds()
        };
        assert_eq!(after(Command::ShorterSpan), 60.0);
        assert_eq!(after(Command::ShorterSpan), 60.0);
        for expected in [300.0, 900.0, 3600.0, 3600.0] {
            assert_eq!(after(Command::LongerSpan), expected);
        }
    }

    #[test]
    fn pages_go_round_and_back_leads_to_the_overview() {
        let mut state = State::default();
        let mut after = |command| {
            state.apply(command, &[], &[]);
            (state.page, state.help)
        };
        assert_eq!(after(Command::NextPage), (Page::Charts, false));
        assert_eq!(after(Command::PreviousPage), (Page::Overview, false));
        assert_eq!(after(Command::PreviousPage), (Page::Missing, false));
        assert_eq!(after(Command::Help), (Page::Missing, true));
        assert_eq!(after(Command::Back), (Page::Missing, false));
        assert_eq!(after(Command::Back), (Page::Overview, false));
    }

    #[test]
    fn the_loop_is_told_to_end_stop_or_redraw() {
        let mut state = State::default();
        assert_eq!(state.apply(Command::Quit, &[], &[]), Then::Quit);
        assert_eq!(state.apply(Command::Suspend, &[], &[]), Then::Suspend);
        assert_eq!(state.apply(Command::Redraw, &[], &[]), Then::Redraw);
    }
}
