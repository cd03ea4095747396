"""Many runs: experiment files, engines that compute them, and the table over all results."""
