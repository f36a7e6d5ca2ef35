package app

import "os/exec"

func openURL(environ []string, address string) error {
	cmd := exec.Command("/usr/bin/open", address)
	cmd.Env = environ
	return cmd.Run()
}
