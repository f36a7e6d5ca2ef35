// Command icons draws Signalbox's icons: a semaphore, the railway signal whose arm rises for "go". Run it in the repository's
// root after a change:
//
//	go run ./build/icons
//
// The tray shows the state by colour and, for those who do not see colours, by shape: a raised arm for running, the same
// with a dot for a device at work, a level arm for a problem, a hanging arm for a stopped server.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"log"
	"math"
	"os"
	"path/filepath"
)

var (
	board = color.NRGBA{0x17, 0x24, 0x38, 0xff} // the app icon's ground
	white = color.NRGBA{0xf4, 0xf6, 0xf8, 0xff}
	iron  = color.NRGBA{0x23, 0x2a, 0x34, 0xff} // the post: seen on bright panels, its white rim on dark ones
	grey  = color.NRGBA{0x8a, 0x94, 0xa0, 0xff}
	red   = color.NRGBA{0xf0, 0x3a, 0x30, 0xff}
	amber = color.NRGBA{0xff, 0xb0, 0x20, 0xff}
	green = color.NRGBA{0x22, 0xc3, 0x5e, 0xff}
)

// semaphore is one picture.
type semaphore struct {
	angle          float64 // of the arm, in degrees above the horizon
	shift          float64 // to the right
	arm, post, rim color.NRGBA
	dot, ground    color.NRGBA
	size           float64
}

var states = map[string]semaphore{
	"running": {angle: 42, arm: green, post: iron, rim: white, size: 0.94},
	"busy":    {angle: 42, arm: green, post: iron, rim: white, size: 0.94, dot: amber},
	"problem": {angle: 0, arm: red, post: iron, rim: white, size: 0.94},
	"stopped": {angle: -42, arm: grey, post: iron, rim: white, size: 0.94},
}

var app = semaphore{angle: 42, arm: green, post: white, size: 0.7, shift: 0.06, ground: board}

// at is the colour at a point of the unit square; alpha 0 outside.
func (s semaphore) at(x, y float64) color.NRGBA {
	u, v := (x-0.5-s.shift)/s.size+0.5, (y-0.5)/s.size+0.5
	const pivotX, pivotY = 0.27, 0.47
	sin, cos := math.Sincos(s.angle * math.Pi / 180)
	along, across := (u-pivotX)*cos-(v-pivotY)*sin, (u-pivotX)*sin+(v-pivotY)*cos
	arm := roundedBox(along-0.28, across, 0.34, 0.12, 0.04)
	post := min(roundedBox(u-pivotX, v-0.54, 0.065, 0.41, 0.03), roundedBox(u-pivotX, v-0.92, 0.17, 0.05, 0.03))
	lamp := math.Hypot(u-pivotX, v-pivotY) - 0.075
	dot := math.Hypot(u-0.77, v-0.77) - 0.17
	const rim = 0.05
	switch {
	case s.dot.A > 0 && dot < 0:
		return s.dot
	case s.dot.A > 0 && dot < rim:
		return s.rim
	case lamp < 0:
		return white
	case arm < 0:
		return s.arm
	case post < 0:
		return s.post
	case s.rim.A > 0 && min(arm, post) < rim:
		return s.rim
	case s.ground.A > 0 && roundedBox(x-0.5, y-0.5, 0.48, 0.48, 0.22) < 0:
		return s.ground
	}
	return color.NRGBA{}
}

// roundedBox is the distance to a box of the given half sizes and corner radius: negative inside.
func roundedBox(x, y, w, h, r float64) float64 {
	dx, dy := math.Abs(x)-w+r, math.Abs(y)-h+r
	return math.Hypot(max(dx, 0), max(dy, 0)) + min(max(dx, dy), 0) - r
}

// draw renders with 8 x 8 samples a pixel.
func (s semaphore) draw(size int) *image.NRGBA {
	const n = 8
	img := image.NewNRGBA(image.Rect(0, 0, size, size))
	for py := range size {
		for px := range size {
			var r, g, b, a float64
			for i := range n * n {
				c := s.at((float64(px)+(float64(i%n)+0.5)/n)/float64(size), (float64(py)+(float64(i/n)+0.5)/n)/float64(size))
				w := float64(c.A)
				r, g, b, a = r+float64(c.R)*w, g+float64(c.G)*w, b+float64(c.B)*w, a+w
			}
			if a > 0 {
				img.SetNRGBA(px, py, color.NRGBA{byte(r/a + 0.5), byte(g/a + 0.5), byte(b/a + 0.5), byte(a/n/n + 0.5)})
			}
		}
	}
	return img
}

// hardEdges makes each pixel whole or nothing. systray mangles colours that are part transparent, and panels smooth anyway when
// they scale the picture down.
func hardEdges(img *image.NRGBA) *image.NRGBA {
	for i := 3; i < len(img.Pix); i += 4 {
		if img.Pix[i] < 0x80 {
			copy(img.Pix[i-3:i+1], []byte{0, 0, 0, 0})
		} else {
			img.Pix[i] = 0xff
		}
	}
	return img
}

func encodePNG(img image.Image) []byte {
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, img); err != nil {
		log.Fatal(err)
	}
	return out.Bytes()
}

// encodeDIB is the bitmap form of an icon's picture: old loaders read small sizes only like this.
func encodeDIB(img *image.NRGBA) []byte {
	size := img.Bounds().Dx()
	var out bytes.Buffer
	// BITMAPINFOHEADER; the height counts the mask below the picture too.
	header := []any{uint32(40), int32(size), int32(2 * size), uint16(1), uint16(32), uint32(0), uint32(0), int32(0), int32(0), uint32(0), uint32(0)}
	for _, field := range header {
		_ = binary.Write(&out, binary.LittleEndian, field)
	}
	for y := size - 1; y >= 0; y-- {
		for x := range size {
			c := img.NRGBAAt(x, y)
			out.Write([]byte{c.B, c.G, c.R, c.A})
		}
	}
	out.Write(make([]byte, (size+31)/32*4*size)) // the mask: alpha decides
	return out.Bytes()
}

func (s semaphore) encodeICO(sizes ...int) []byte {
	var dir, data bytes.Buffer
	_ = binary.Write(&dir, binary.LittleEndian, [3]uint16{0, 1, uint16(len(sizes))})
	for _, size := range sizes {
		picture := encodeDIB(s.draw(size))
		if size >= 256 {
			picture = encodePNG(s.draw(size))
		}
		dir.Write([]byte{byte(size), byte(size), 0, 0}) // 256 is written as 0
		_ = binary.Write(&dir, binary.LittleEndian, [2]uint16{1, 32})
		_ = binary.Write(&dir, binary.LittleEndian, [2]uint32{uint32(len(picture)), uint32(6 + 16*len(sizes) + data.Len())})
		data.Write(picture)
	}
	return append(dir.Bytes(), data.Bytes()...)
}

func write(data []byte, path ...string) {
	file := filepath.Join(append([]string{"build"}, path...)...)
	if err := os.WriteFile(file, data, 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Println(file, len(data))
}

func main() {
	log.SetFlags(0)
	write(encodePNG(app.draw(512)), "appicon.png")
	write(app.encodeICO(16, 20, 24, 32, 48, 64, 256), "appicon.ico")
	for name, s := range states {
		write(encodePNG(hardEdges(s.draw(64))), "tray", name+".png")
		write(s.encodeICO(16, 20, 24, 32, 48), "tray", name+".ico")
	}
}
