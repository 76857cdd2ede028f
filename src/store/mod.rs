//! SQLite and PostgreSQL behind one type.
