//go:build !desktop

package app

const hasWindow = false

func runWindow(windowOptions) error { return errNoWindow }
