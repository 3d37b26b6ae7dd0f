"""What `torch.distributed.checkpoint` has beside facula's."""

from facula.as_torch._refused import refused_class, refused_function

for _name in "DefaultLoadPlanner DefaultSavePlanner FileSystemReader FileSystemWriter".split():
    globals()[_name] = refused_class("distributed.checkpoint." + _name)
for _name in ("async_save", "load_state_dict", "save_state_dict"):
    globals()[_name] = refused_function("distributed.checkpoint." + _name)
