"""The commands: a file each, with a function `<name>_command`; none imports torch at the top."""
