"""Shape of one input of each net that peers run, by the name of its folder."""

SHAPES = {
    "resnet50": (3, 224, 224),
    "vgg16": (3, 224, 224),
    "alexnet": (3, 227, 227),
    "alexnet_bn": (3, 227, 227),
    "googlenet": (3, 224, 224),
    "cifar10_resnet20": (3, 32, 32),
    "lenet": (1, 28, 28),
    "unet": (3, 256, 256),
}
CALIBRATION_BATCHES = 3  # of random inputs, for the ranges of peers on 8-bit integers
