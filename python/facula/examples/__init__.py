"""Programs that show facula at work, each in a minute: `python -m facula.examples.vae`, say.

digits             a convolutional network reads handwritten digits
charlm             a small GPT learns a text character by character
lstm_text          an LSTM learns a poem and recites it
vae                a variational autoencoder draws new digits
gan                a generator learns a distribution against a discriminator
policy_gradient    a pole is balanced on a cart, learned by trial and error
karate             a graph convolution finds the two sides of a karate club
series             an LSTM foresees a wave, with L-BFGS
hogwild            several processes train one network in shared memory
transfer           layers of a `.pt` file serve another task
ode                a neural ordinary differential equation finds the law of a motion
per_sample_gradients  gradients of each sample of a batch, at once
gaussian_process   a curve with how sure one is of it
"""
