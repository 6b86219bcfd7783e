//! What is said of incidents: made of seconds by [`build`], shown by [`card`] and [`list`].

pub mod build;
pub mod card;
pub mod list;
pub mod time;

#[cfg(test)]
mod tests;
