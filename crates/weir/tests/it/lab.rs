//! The laboratory as a user runs it: the real program, built-in origins as contenders, and the shortest
//! possible runs. Tests nothing about speed.

mod bad_input;
mod faults;
mod processes;
mod runs;
mod stand_ins;
