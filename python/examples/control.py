"""Control in ten lines: a shipped model drives the dot through the door to where the goal image shows it."""

import gymnasium

import firm

env = gymnasium.make("firm/TwoRoom-v0")
frame, info = env.reset(options={"state": [50.0, 150.0], "goal": [170.0, 60.0]})
ctl = firm.Controller("tworoom", mode="reach")
ctl.goal(env.unwrapped.goal_pixels())
action, reached = None, False
while not reached:
    ctl.push(frame, action)
    step = ctl.act()
    action = step.action
    frame, reward, reached, late, info = env.step(action)
    print(f"agent {step.distances['agent']:5.1f} px from the goal, arriving at macro step {step.arrival}")
    if late:
        raise SystemExit("not reached")
