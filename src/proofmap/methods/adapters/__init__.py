"""Methods of other libraries: Captum, pytorch-grad-cam, torch-cam, shap and lime, by the name of a class or as an object.

Without its library, a method names the extra to install.
"""
