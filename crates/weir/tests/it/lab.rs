//! The laboratory as a person calls it: the real program, contenders that are origins in disguise, runs that are as short
//! as runs can be. Nothing is said of speed.

mod bad_input;
mod processes;
mod runs;
mod stand_ins;
