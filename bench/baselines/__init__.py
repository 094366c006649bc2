"""What we are compared with: loops written by hand, the machine itself, and us without guarantees."""
