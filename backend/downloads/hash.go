package downloads

import (
	"os"

	"signalbox/backend/models"
)

func hashed(path string) (size int64, sum string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, "", err
	}
	sum, err = models.HashFile(path)
	return info.Size(), sum, err
}
