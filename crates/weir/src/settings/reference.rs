//! The reference page of the settings, made from the table; the committed page is compared with it.
