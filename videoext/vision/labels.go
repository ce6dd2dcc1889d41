package vision

import "strings"

// coco are the 80 classes of COCO's detections (Lin and others, 2014), by their number among those in use.
var coco = strings.Split("person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,stop sign,"+
	"parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,backpack,umbrella,handbag,tie,suitcase,"+
	"frisbee,skis,snowboard,sports ball,kite,baseball bat,baseball glove,skateboard,surfboard,tennis racket,bottle,"+
	"wine glass,cup,fork,knife,spoon,bowl,banana,apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,chair,"+
	"couch,potted plant,bed,dining table,toilet,tv,laptop,mouse,remote,keyboard,cell phone,microwave,oven,toaster,sink,"+
	"refrigerator,book,clock,vase,scissors,teddy bear,hair drier,toothbrush", ",")

// pascal are the 20 classes of PASCAL VOC, after the background.
var pascal = strings.Split("background,aeroplane,bicycle,bird,boat,bottle,bus,car,cat,chair,cow,diningtable,dog,horse,"+
	"motorbike,person,pottedplant,sheep,sofa,train,tvmonitor", ",")

// road are the classes of Open Model Zoo's road-segmentation-adas-0001.
var road = []string{"background", "road", "curb", "mark"}

// classesOf is the greatest number of classes that outputs could tell apart.
func classesOf(outputs []Output) int {
	most := 0
	for _, out := range outputs {
		most = max(most, min(out.Shape[1], out.Shape[len(out.Shape)-1]))
	}
	return most
}

// cocoOf are the labels of a detector of things; one of a single class finds persons.
func cocoOf(int) []string { return coco }

func faceOf(int) []string { return []string{"face"} }

// pixelsOf are the labels of the sets that have so many classes.
func pixelsOf(classes int) []string {
	switch classes {
	case len(pascal):
		return pascal
	case len(road):
		return road
	}
	return nil
}
