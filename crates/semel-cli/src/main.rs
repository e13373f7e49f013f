//! The `semel` command: a thin door to the library beside it.

fn main() -> std::process::ExitCode {
    semel_cli::run(std::env::args_os())
}
