// Package build holds the pictures that the program and its installers share. Command icons draws them.
package build

import _ "embed"

// AppIcon is the program's icon, a PNG of 512 pixels.
//
//go:embed appicon.png
var AppIcon []byte
