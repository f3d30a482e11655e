"""The programs that run inside the containers.

Each module here is started as ``python -m k8sbench.trainers.NAME`` by torchrun, or as a file by
``paddle_launch``, in a pod that has the framework and numpy and nothing else of ours:
trainers import the standard library, numpy and their own framework only, and keep to the syntax
of Python 3.10. Adding one means adding a model and a data set; everything that trainers have in
common is in ``parts``.
"""
