//! What an operator asks of a store on Postgres.
