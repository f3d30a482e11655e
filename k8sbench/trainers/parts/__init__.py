"""What all trainers share: settings, machine lines, family lines, step times, schedules."""
