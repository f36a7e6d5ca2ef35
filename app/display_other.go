//go:build !linux

package app

func findDisplay() (bool, string) { return true, "" }
